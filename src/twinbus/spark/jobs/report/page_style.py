"""How the page of a report looks: on a desk, on a phone, on paper."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.25rem; max-width: 66rem; background: #fff;
  color: #1b1b1b; font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans",
  sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0.4rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 0.8rem; padding-top: 0.8rem;
  border-top: 2px solid #1b1b1b; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 0.3rem; overflow-wrap: anywhere; }
header p { margin: 0; color: #44474b; }
p { margin: 0.5rem 0; }
.figures { list-style: none; display: grid; gap: 0.75rem; padding: 0; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); }
.figures li { border: 1px solid #c9cdd2; border-radius: 6px; padding: 0.6rem 0.8rem; }
.figures b { display: block; font-size: 1.45rem; line-height: 1.25; }
.figures span { color: #44474b; font-size: 0.9rem; }
.remarks { border-left: 5px solid #b34700; background: #fff6ed; padding: 0.5rem 1rem;
  margin: 1rem 0; }
.remarks h3 { margin-top: 0.2rem; }
.remarks ul { margin: 0.3rem 0; padding-left: 1.2rem; }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { color: #44474b; font-size: 0.9rem; }
.narrow { display: none; }
.scroll { overflow-x: auto; margin: 1rem 0; }
.scroll:focus-visible, pre:focus-visible { outline: 3px solid #0072b2; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.3rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.7rem 0.3rem 0;
  border-bottom: 1px solid #d9dce1; }
th { border-bottom: 1px solid #5f6368; white-space: nowrap; }
td { min-width: 4rem; overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.time { white-space: nowrap; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f3f4f6;
  padding: 0.6rem 0.8rem; border-radius: 6px; margin: 0.3rem 0;
  font-size: 0.9rem; }
dl { font-size: 0.9rem; color: #44474b; }
dt { font-weight: 600; }
dd { margin: 0 0 0.3rem 1rem; }
@media (max-width: 40rem) {
  body { padding: 0.9rem; }
  h1 { font-size: 1.5rem; }
  .wide { display: none; }
  .narrow { display: block; }
  .figures { grid-template-columns: repeat(2, 1fr); }
  .figures b { font-size: 1.2rem; }
  td { overflow-wrap: normal; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .wide { display: block; }
  .narrow { display: none; }
  .scroll { overflow: visible; }
  pre { border: 1px solid #c9cdd2; }
  figure, .group, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  table { font-size: 8pt; }
}
"""

"""The syphon: brings what waits in backlog queues back to the primary (P12).

`Syphon` runs one `worker` for each backlog queue, on the ports that an engine offers
(`own/` or `sdk_syphon/`). Decisions are made in pure modules: `triage`, `treatments`,
`gates` and `deferrals`.
"""

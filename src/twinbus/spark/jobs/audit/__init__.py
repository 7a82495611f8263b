"""The audit: was anything lost, doubled or brought to a wrong entity?

`run` is the job; the command is `twinbus spark audit`.
"""

from twinbus.spark.jobs.audit.audit_options import AuditOptions
from twinbus.spark.jobs.audit.audit_run import run
from twinbus.spark.jobs.audit.audit_summary import AuditSummary

__all__ = ["AuditOptions", "AuditSummary", "run"]

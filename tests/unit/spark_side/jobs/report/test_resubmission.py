"""The command beside a group of dead letters."""

import shlex

from twinbus.spark.jobs.report.resubmission import needs_secondary, resubmit_command


def test_dead_letters_are_named_by_number() -> None:
    assert resubmit_command("orders", (3, 7)) == (
        "twinbus dead-letters resubmit orders --sequence-number 3 --sequence-number 7"
    )


def test_those_of_a_subscription_go_back_to_it() -> None:
    path = "billing/subscriptions/audit"
    command = f"twinbus dead-letters resubmit {path} --sequence-number 3"
    assert resubmit_command(path, (3,)) == command


def test_a_path_of_a_stranger_is_one_word_of_the_shell() -> None:
    path = "a; rm -rf $HOME"
    assert shlex.split(resubmit_command(path, (1,)))[3] == path


def test_a_backlog_queue_is_in_the_secondary() -> None:
    assert needs_secondary("site-a/x-servicebus-transfer/0")
    assert not needs_secondary("orders")

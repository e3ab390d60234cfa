"""The contract every runner keeps, a third party's too, as named checks. Standard library only.

@pytest.mark.parametrize("check", conformance.checks(RUNNER, {"mine": snapshot}), ids=str)
def test_contract(check):
    check()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.runners.base import Runner
from harness.runners.facts import contract, contract_acts, samples
from harness.runners.facts.snapshot import Snapshot

RULES: Mapping[str, contract.Rule] = {
    "name": contract_acts.rule_name,
    "fields": contract_acts.rule_fields,
    "recorded": contract_acts.rule_recorded,
    "total": contract.rule_total,
    "pure": contract.rule_pure,
    "why_not": contract.rule_why_not,
    "usable": contract.rule_usable,
    "arch": contract.rule_arch,
    "capabilities": contract.rule_capabilities,
    "fp8": contract.rule_fp8,
    "peaks": contract.rule_peaks,
    "emulation": contract.rule_emulation,
    "environment": contract.rule_environment,
    "pin": contract_acts.rule_pin,
    "synchronize": contract_acts.rule_synchronize,
    "command": contract_acts.rule_command,
    "proven": contract.rule_proven,
    "probe": contract_acts.rule_probe,
}
DECIDING = ("total", "why_not", "usable", "arch", "capabilities", "fp8", "peaks", "emulation", "environment")


@dataclass(frozen=True)
class Finding:
    """One breach: the rule's name and what was seen, on one line."""

    rule: str
    message: str


@dataclass(frozen=True)
class Check:
    """One rule for one runner; called, it raises AssertionError with the breaches."""

    rule: str
    promise: str
    runner: Runner
    snapshots: Mapping[str, Snapshot]

    def __str__(self) -> str:
        return self.rule

    def __call__(self) -> None:
        found = self.findings()
        assert not found, f"{self.rule}: {self.promise}\n" + "\n".join(f.message for f in found)

    def findings(self) -> list[Finding]:
        """The breaches of this rule; a runner that raises where it must answer breaks the rule, too."""
        try:
            return [Finding(self.rule, message) for message in RULES[self.rule](self.runner, self.snapshots)]
        except Exception as error:  # noqa: BLE001 - a third party's code may raise anything
            return [Finding(self.rule, f"raised {type(error).__name__}: {error}")]


def checks(runner: Runner, snapshots: Mapping[str, Snapshot] | None = None) -> list[Check]:
    """The contract as checks, in the order of RULES.

    `snapshots`: machines that the runner is for and others, by name; the kit adds its own. Without one that the
    runner can use, here or given, `proven` fails: the rules about usable machines would have tested nothing.
    """
    every = {**samples.samples(), **(snapshots or {})}
    return [Check(name, (rule.__doc__ or "").strip(), runner, every) for name, rule in RULES.items()]


def check_runner(runner: Runner, snapshots: Mapping[str, Snapshot] | None = None) -> list[Finding]:
    """All breaches of the contract."""
    return [finding for check in checks(runner, snapshots) for finding in check.findings()]


def judge_decision(runner: Runner, seen: Snapshot) -> list[Finding]:
    """Breaches of the rules about deciding, for one snapshot: fit for snapshots made by the thousand."""
    one = {"this one": seen}
    return [finding for name in DECIDING for finding in Check(name, "", runner, one).findings()]

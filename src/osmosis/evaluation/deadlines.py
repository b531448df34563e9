"""Every time limit of a run, in one place. Seconds; the code it limits owns none of them.

    start      the rollout process must be healthy
    agent      AgentWorkflow.run, kept by the rollout's SDK
    grader     Grader.grade, likewise
    teardown   what a sample may take beyond both: its wait for a slot, its start, its end
    sample     agent + grader + teardown, kept by the engine whatever the code does: then the
               sample is a ``timeout`` and its slot is free
    export     the artifacts of a sample, sent beside the slots; what is not sent then is left out
    outage     a model that does not answer at all is waited for, before the run is halted

A sample that blocks its server's event loop blocks its neighbours too, and the process group is
killed once it has been silent for the longer of agent and grader plus a grace.
"""

from __future__ import annotations

from dataclasses import dataclass

from osmosis.evaluation.plan import EvaluationPlan

START_S = 90.0

STOP_CANCEL_S = 1.0
STOP_GRACE_S = 3.0
"""For lanes that are recording when a stop comes; what is graded by then is kept."""
END_S = 4.0
"""For each part of an evaluation to end, whatever the others do."""
EARLY_END_FLUSH_S = 3.0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The limits of one run."""

    agent_s: float
    grader_s: float
    teardown_s: float
    export_s: float
    outage_s: float
    start_s: float = START_S

    @classmethod
    def of(cls, plan: EvaluationPlan) -> Deadlines:
        return cls(
            agent_s=plan.agent_workflow_timeout_s,
            grader_s=plan.grader_timeout_s,
            teardown_s=plan.advanced.teardown_grace_s,
            export_s=plan.advanced.export_timeout_s,
            outage_s=plan.advanced.outage_wait_s,
        )

    @property
    def sample_s(self) -> float:
        """The whole time a try may take, from its admission request to its result."""
        return max(self.agent_s, 0) + max(self.grader_s, 0) + self.teardown_s

    def described(self) -> dict[str, float]:
        """By phase, for people."""
        return {
            "start_s": self.start_s,
            "agent_s": self.agent_s,
            "grader_s": self.grader_s,
            "teardown_s": self.teardown_s,
            "sample_s": self.sample_s,
            "export_s": self.export_s,
            "outage_s": self.outage_s,
        }

"""What one run may consume, counted as it goes. A trip is terminal: nothing is retried after it."""

from mikan_agent.exceptions import BudgetExceeded
from mikan_agent.messages import Usage as CallUsage
from mikan_api.durations import parse_duration
from mikan_api.responder import Usage
from mikan_api.settings import Budgets


class Spending:
    """The consumption of a run beside its caps."""

    def __init__(self, budgets: Budgets, parent: "Spending | None" = None) -> None:
        self._budgets, self._parent = budgets, parent
        self._calls = 0
        self._input = 0
        self._output = 0
        self._cost = 0.0

    @property
    def usage(self) -> Usage:
        """What was consumed so far."""
        return Usage(
            input_tokens=self._input,
            output_tokens=self._output,
            cost_usd=round(self._cost, 9),
            model_calls=self._calls,
        )

    @property
    def seconds(self) -> float | None:
        """How long the run may take."""
        return parse_duration(self._budgets.duration).total_seconds() if self._budgets.duration else None

    def child(self, budgets: Budgets) -> "Spending":
        """Of work that is delegated: it has caps of its own, and counts here as well."""
        return Spending(budgets, self)

    def begin_call(self) -> None:
        """Count a model call that is about to be made.

        Raises:
            BudgetExceeded: it, or what was consumed before, is beyond a cap.
        """
        self.check()
        cap = self._budgets.model_calls
        if cap is not None and self._calls >= cap:
            raise BudgetExceeded(f"model calls: {cap} allowed")
        if self._parent is not None:
            self._parent.begin_call()
        self._calls += 1

    def add(self, usage: CallUsage) -> None:
        """Count what a call consumed."""
        self._input += usage.input + usage.cache_read + usage.cache_write
        self._output += usage.output
        self._cost += usage.cost.total
        if self._parent is not None:
            self._parent.add(usage)

    def check(self) -> None:
        """Compare with the caps of tokens and cost.

        Raises:
            BudgetExceeded: the message says which.
        """
        if self._budgets.tokens is not None and self._input + self._output > self._budgets.tokens:
            raise BudgetExceeded(f"tokens: {self._input + self._output} used, {self._budgets.tokens} allowed")
        if self._budgets.cost_usd is not None and self._cost > self._budgets.cost_usd:
            raise BudgetExceeded(f"cost: {self._cost:.4f} USD used, {self._budgets.cost_usd:g} allowed")

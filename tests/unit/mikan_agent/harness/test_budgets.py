import pytest

from mikan_agent.exceptions import BudgetExceeded
from mikan_agent.harness.budgets import Spending
from mikan_agent.messages import Cost, Usage
from mikan_api import responder
from mikan_api.settings import Budgets

CALL = Usage(input=5, output=3, cache_read=2, total_tokens=10, cost=Cost(total=0.5))


def test_usage_adds_up() -> None:
    spending = Spending(Budgets())
    for _ in range(2):
        spending.begin_call()
        spending.add(CALL)
    assert spending.usage == responder.Usage(input_tokens=14, output_tokens=6, cost_usd=1.0, model_calls=2)


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        (Budgets(model_calls=1), "model calls: 1 allowed"),
        (Budgets(tokens=9), "tokens: 10 used, 9 allowed"),
        (Budgets(cost_usd=0.4), "cost: 0.5000 USD used, 0.4 allowed"),
    ],
)
def test_the_next_call_is_refused_beyond_a_cap(budgets: Budgets, message: str) -> None:
    spending = Spending(budgets)
    spending.begin_call()
    spending.add(CALL)
    with pytest.raises(BudgetExceeded, match=f"^{message}$"):
        spending.begin_call()


def test_a_cap_that_is_just_reached_still_holds() -> None:
    spending = Spending(Budgets(tokens=10, cost_usd=0.5, model_calls=2, duration="1m30s"))
    spending.begin_call()
    spending.add(CALL)
    spending.begin_call()
    assert spending.seconds == 90.0

"""What the operator counts (Prometheus)."""

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("mikan_operator_api_requests_total", "Requests to the API server.", ["method", "status"])
RECONCILES = Counter("mikan_operator_reconciles_total", "Reconciles by kind and result.", ["kind", "result"])
RECONCILE_SECONDS = Histogram("mikan_operator_reconcile_seconds", "Duration of a reconcile.", ["kind"])
OFFICES = Gauge("mikan_operator_offices", "Offices by the reason of their Ready condition.", ["reason"])
QUEUE_DEPTH = Gauge("mikan_operator_queue_depth", "Keys that wait for a worker.")
LAST_EVENT = Gauge("mikan_operator_watch_last_event_timestamp_seconds", "When a watch last delivered.", ["watch"])
STALE_WATCHES = Gauge("mikan_operator_watch_stale", "1 while a watch is known to have missed changes.", ["watch"])
LEADER = Gauge("mikan_operator_lease_held", "1 while this process holds the Lease.")
INPUTS_VALID = Gauge("mikan_operator_inputs_valid", "0 while the mounted settings or keys can't be used.")
FIRINGS = Counter("mikan_operator_firings_total", "Scheduled events delivered to the gateway.", ["result"])
FIRING_LATENESS = Histogram(
    "mikan_operator_firing_lateness_seconds",
    "From the scheduled time of an event until the gateway had it.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600),
)

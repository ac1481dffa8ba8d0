"""Commands and bytes between an agent and its sandbox, beside ``pods/exec`` and ``kubectl exec`` into the same pod."""

from collections.abc import Iterator

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_bench.figures import Figure, Target, p50, p99
from mikan_bench.plan import Plan
from mikan_bench.pods import in_agent, kubectl_seconds
from mikan_cluster.release import Release

SHARE_OF_EXEC = 0.05
FILE = "/tmp/bench.bin"


def measure_executor(release: Release, key: OfficeKey, plan: Plan) -> Iterator[Figure]:
    """Measure in one running office."""
    job = {"count": plan.commands, "output_mb": plan.output_mb, "file_mb": plan.file_mb}
    found = in_agent(release, key, "executor", job)
    exec_into = ["exec", "-n", release.offices, names.sandbox_pod(key), "-c", names.SANDBOX_CONTAINER]
    one = p50(found["pods_exec"])
    beside = {
        "one pods/exec of true": one,
        "kubectl exec of true": kubectl_seconds(release, *exec_into, "--", "true") * 1000,
        "executor, stat": p50(found["stat"]),
    }
    yield Figure("executor, true, p50", p50(found["true"]), "ms", beside, Target(4))
    yield Figure("executor, true, p99", p99(found["true"]), "ms", beside)
    yield Figure("executor, true by the shell, p50", p50(found["true_shell"]), "ms", beside)
    share = p50(found["true"]) / one
    yield Figure("executor, true, share of one pods/exec", share, "", target=Target(SHARE_OF_EXEC))
    size, data = plan.output_mb * 1_000_000, bytes(plan.file_mb * 1_000_000)
    kubectl = {
        "output": plan.output_mb / kubectl_seconds(release, *exec_into, "--", "head", "-c", str(size), "/dev/zero"),
        "file in": plan.file_mb
        / kubectl_seconds(release, *exec_into, "-i", "--", "sh", "-c", f"cat >{FILE}", stdin=data),
        "file out": plan.file_mb / kubectl_seconds(release, *exec_into, "--", "cat", FILE),
    }
    kubectl_seconds(release, *exec_into, "--", "rm", FILE)
    for name, ours in (("output", "output"), ("file in", "write"), ("file out", "read")):
        floor = kubectl[name]
        target = Target(floor, at_least=True)
        yield Figure(f"executor, {name}", found[ours], "MB/s", {"kubectl exec": floor}, target)

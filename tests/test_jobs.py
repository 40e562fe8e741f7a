"""Jobs in this process, in worker processes and on Ray nodes give the same results, and end cleanly."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from treegraft.jobs import RAY_PATIENCE, JobError, cpus_a_task, run_jobs

ROOT = Path(__file__).parents[1]
PATIENCE = 60
"""Seconds that a busy machine may take to start a few processes."""


class PickyError(Exception):
    """Cannot be unpickled: its constructor wants two arguments, and gets the message alone."""

    def __init__(self, what: str, why: str):
        super().__init__(f"{what} is {why}")


class Power:
    """A job object with state, as the commands use them."""

    def __init__(self, exponent: int):
        self.exponent = exponent

    def __call__(self, base: int) -> int:
        return base ** self.exponent


def slow_first(job: int) -> int:
    time.sleep(2 if job == 0 else 0)
    return job * job


def fail_at_three(job: int) -> int:
    if job == 3:
        raise ValueError("three is too many")
    time.sleep(0.1 if job < 3 else 600)
    return job


def picky(job: str) -> None:
    raise PickyError(job, "odd")


def lock(job: str) -> object:
    return threading.Lock()


def die(job: int) -> None:
    os._exit(9)


def worker_state(job: int) -> tuple[int, str, str, bool, bool]:
    """Process, its thread settings, and whether Ctrl-C can reach it."""
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return os.getpid(), os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"], blocked, ignored


def tell_and_linger(job: str) -> str:
    """Leaves its process id in a file named by the job; lingers unless the job is named `quick`."""
    path = Path(job)
    path.with_suffix(".part").write_text(str(os.getpid()))
    path.with_suffix(".part").rename(path)
    if path.name != "quick":
        time.sleep(600)
    return path.name


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_comes_back_once(workers):
    assert sorted(run_jobs(Power(2), range(5), workers=workers)) == [(job, job * job) for job in range(5)]
    assert list(run_jobs(Power(2), [], workers=workers)) == []


def test_one_worker_is_this_process():
    here = []
    assert list(run_jobs(here.append, ["a", "b"], workers=1)) == [("a", None), ("b", None)]
    assert here == ["a", "b"]


def test_a_slow_job_holds_up_no_other():
    assert list(run_jobs(slow_first, range(4), workers=2))[-1] == (0, 0)


def test_workers_share_the_threads_and_never_see_ctrl_c():
    with_cores = len(os.sched_getaffinity(0))
    for _, (process, omp, mkl, blocked, ignored) in run_jobs(worker_state, range(3), workers=2):
        assert process != os.getpid()
        assert omp == mkl == str(max(1, with_cores // 2))
        assert blocked
        assert ignored
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failed_job_is_named_and_ends_the_rest(workers):
    done, started = [], time.monotonic()
    with pytest.raises(JobError, match=r"job 3 failed: ValueError: three is too many") as caught:
        done.extend(job for job, _ in run_jobs(fail_at_three, range(6), workers=workers))
    assert isinstance(caught.value.__cause__, ValueError)
    assert set(done) <= {0, 1, 2}
    assert time.monotonic() - started < PATIENCE
    if workers == 2:
        assert "in fail_at_three" in "".join(caught.value.__cause__.__notes__)


def test_an_error_that_cannot_travel_arrives_as_text():
    with pytest.raises(JobError, match=r"job b?a failed: RuntimeError: PickyError: b?a is odd") as caught:
        list(run_jobs(picky, ["a", "ba"], workers=2))
    assert "in picky" in "".join(caught.value.__cause__.__notes__)


def test_a_worker_that_dies_is_told_from_a_failed_job():
    with pytest.raises(JobError, match="a worker process ended in the middle of a job"):
        list(run_jobs(die, range(2), workers=2))


def test_long_names_are_cut():
    with pytest.raises(JobError) as caught:
        list(run_jobs(len, [Power, "x " * 500]))
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("work", "jobs", "words"), [
    (lambda job: job, [1, 2], "the work cannot be sent to another process"),
    (len, ["fine", threading.Lock()], "job <unlocked _thread.lock .* cannot be sent to another process"),
])
def test_what_cannot_be_pickled_is_said_before_anything_starts(work, jobs, words):
    with pytest.raises(JobError, match=words + ".*module-level function or class") as caught:
        run_jobs(work, jobs, workers=2)
    assert isinstance(caught.value.__cause__, (pickle.PicklingError, TypeError, AttributeError))


def test_a_result_that_cannot_be_pickled():
    with pytest.raises(JobError, match=r"job .a failed: TypeError: its result cannot be sent back"):
        list(run_jobs(lock, ["1a", "2a"], workers=2))


@pytest.mark.parametrize(("options", "words"), [
    ({"engine": "slurm"}, "unknown engine 'slurm'; choose one of local, ray"),
    ({"workers": 0}, "0 workers asked for; the engine 'local' needs at least 1"),
    ({"engine": "ray", "workers": -1}, "-1 workers asked for; the engine 'ray' needs at least 0"),
])
def test_refusals(options, words):
    with pytest.raises(JobError, match=words):
        run_jobs(len, ["a"], **options)


SCRIPT = """
import sys, time
from pathlib import Path
from treegraft.jobs import run_jobs
from tests.test_jobs import tell_and_linger

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    jobs = [str(folder / name) for name in ("quick", "a", "b", "c")]
    try:
        for job, result in run_jobs(tell_and_linger, jobs, workers=2):
            (folder / "yielded").write_text(result)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture
def lingering(tmp_path):
    """A process whose first job came back, and whose two workers are busy for the next ten minutes."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, script, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    wait_for(lambda: all((tmp_path / name).exists() for name in ("yielded", "a", "b")))
    yield process, [int((tmp_path / name).read_text()) for name in ("a", "b")]
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait_for(condition) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


@needs_proc
def test_ctrl_c_ends_the_workers_without_tracebacks(lingering):
    process, workers = lingering
    assert all(map(alive, workers))
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (output, errors, process.returncode) == ("interrupted\n", "", 0)
    wait_for(lambda: not any(map(alive, workers)))


@needs_proc
def test_workers_end_with_a_parent_that_was_killed(lingering):
    process, workers = lingering
    process.kill()
    wait_for(lambda: not any(map(alive, workers)))


@pytest.mark.parametrize(("nodes", "at_once", "cpus"), [
    ([1, 1], 2, 1), ([16], 3, 5), ([16, 16], 3, 8), ([16, 4], 2, 8), ([0, 8], 1, 8), ([2, 2], 100, 1),
])
def test_tasks_are_as_wide_as_the_nodes_allow(nodes, at_once, cpus):
    assert cpus_a_task(nodes, at_once) == cpus


def test_a_cluster_without_cpus_is_refused():
    with pytest.raises(JobError, match="no node of the Ray cluster offers a CPU"):
        cpus_a_task([0, 0], 1)


def test_ray_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(JobError, match=r"pip install 'treegraft\[ray\]'"):
        run_jobs(len, ["a"], engine="ray")


needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'treegraft[ray]'")


@needs_ray
def test_no_cluster_is_started(monkeypatch, tmp_path):
    import ray

    if ray._private.services.find_gcs_addresses():
        pytest.skip("a Ray cluster runs on this machine")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setenv(*RAY_PATIENCE)
    with pytest.raises(JobError, match=r"no Ray cluster .*ray start --head"):
        list(run_jobs(len, ["a"], engine="ray"))
    assert not ray.is_initialized()


def node_where_both_run(job: str) -> tuple[str, str]:
    """Ray node and threads of a job that ends only when its partner runs too: with a CPU a node, they are on two."""
    import ray

    place = Path(job)
    place.touch()
    wait_for(lambda: len(list(place.parent.iterdir())) == 2)
    return ray.get_runtime_context().get_node_id(), os.environ.get("MKL_NUM_THREADS")


@pytest.fixture(scope="module")
def two_nodes():
    """A Ray cluster of two nodes with a CPU each, and the environment that leads to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("MKL_NUM_THREADS", raising=False)
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            cluster.add_node(num_cpus=1)
            patch.setenv("RAY_ADDRESS", cluster.address)
            patch.setenv(RAY_PATIENCE[0], "60")
            patch.chdir(ROOT)
            yield cluster
        finally:
            cluster.shutdown()


@needs_ray
@pytest.mark.timeout(300)
def test_ray_runs_on_every_node(two_nodes, tmp_path):
    import ray

    done = dict(run_jobs(node_where_both_run, [str(tmp_path / "a"), str(tmp_path / "b")], engine="ray", workers=2))
    assert len({node for node, _ in done.values()}) == 2
    assert {threads for _, threads in done.values()} == {"1"}
    assert not ray.is_initialized()


@needs_ray
@pytest.mark.timeout(300)
def test_ray_gives_every_result_and_names_what_failed(two_nodes):
    assert sorted(run_jobs(Power(2), range(5), engine="ray", workers=0)) == [(job, job * job) for job in range(5)]
    with pytest.raises(JobError, match=r"Ray could not run job 1: .*every node needs the same treegraft"):
        list(run_jobs(die, [1], engine="ray"))


@needs_ray
@pytest.mark.timeout(300)
def test_a_failed_job_frees_the_nodes_of_a_connection_that_stays_open(two_nodes, tmp_path):
    import ray

    with ray.init(address="auto", log_to_driver=False):
        with pytest.raises(JobError, match="job 3 failed: ValueError: three is too many"):
            list(run_jobs(fail_at_three, [3, 9], engine="ray", workers=2))
        assert len(list(run_jobs(node_where_both_run, [str(tmp_path / "a"), str(tmp_path / "b")], engine="ray",
                                 workers=0))) == 2
        assert ray.is_initialized()

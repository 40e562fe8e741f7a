"""Independent jobs in this process, in a pool of processes, or on a Ray cluster; results come as they finish.

    for prompt, value in run_jobs(value_of, prompts, engine="local", workers=4):
        ...

Jobs and results travel by value, so that machines need no common file system: the caller alone writes files.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")

ENGINES = ("local", "ray")
"""Where jobs can run: on this machine, or on the Ray cluster that it belongs to."""

NAME_WIDTH = 80
"""Characters of a job's text that an error shows."""

RAY_PATIENCE = ("RAY_gcs_server_port_wait_time_s", "1")
"""Ray's own setting that makes it give up on a cluster that does not answer after one minute instead of ten."""

UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError)
"""What pickle raises for lambdas, local classes, open files and the like."""


class JobError(RuntimeError):
    """A job that failed (its error is the cause), or an engine that cannot run jobs."""


def run_jobs(work: Callable[[Job], Result], jobs: Sequence[Job], *, engine: str = "local",
             workers: int = 1) -> Iterator[tuple[Job, Result]]:
    """Do `work` for every job and yield (job, result) pairs as they finish, in any order.

    `work` is a module-level function or an object of a module-level class. Where it runs in another process, it, the
    jobs and the results are pickled; what is slow to load belongs in a `functools.cache` of its module, which lives
    as long as the process. `str(job)` names a job in errors.

    Engine `local`: one worker is this process; more are new processes that share the cores' threads evenly.
    Engine `ray`: at most `workers` tasks at once (0: as many as the cluster takes) on an existing cluster, whose nodes
    have treegraft installed. Whatever ends the iteration early also ends the jobs that are still running.

    Raises JobError: for an unknown engine, too few workers, no Ray, what cannot be pickled, or the first failed job.
    """
    if engine not in ENGINES:
        raise JobError(f"unknown engine {engine!r}; choose one of {', '.join(ENGINES)}")
    least = 0 if engine == "ray" else 1
    if workers < least:
        raise JobError(f"{workers} workers asked for; the engine {engine!r} needs at least {least}")
    jobs, workers = list(jobs), min(workers, len(jobs))
    if engine == "local" and workers <= 1:
        return run_here(work, jobs)
    refuse_unpicklable(work, jobs)
    if engine == "ray":
        return run_on_ray(imported_ray(), work, jobs, workers or len(jobs))
    return run_in_pool(work, jobs, workers)


def run_here(work: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
    """One job after the other in this process."""
    for job in jobs:
        try:
            result = work(job)
        except Exception as error:
            raise failed(job, error) from error
        yield job, result


def run_in_pool(work: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    """Jobs in new processes on this machine, which end with this one."""
    threads = max(1, cores() // workers)
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), prepare_worker, (threads,))
    try:
        with interrupts_held():
            waiting = {pool.submit(attempt, work, job): job for job in jobs}
        for future in as_completed(waiting):
            job = waiting.pop(future)
            yield job, unpacked(job, future.result())
    except BrokenProcessPool as error:
        raise JobError("a worker process ended in the middle of a job, most often for lack of memory; "
                       "try fewer workers") from error
    except BaseException:
        # Running jobs would hold up the pool's end. Python 3.14 has pool.terminate_workers() for this.
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def run_on_ray(ray: ModuleType, work: Callable[[Job], Result], jobs: Sequence[Job],
               at_once: int) -> Iterator[tuple[Job, Result]]:
    """A remote task a job, at most `at_once` at a time, each with as many CPUs as leave room for the others."""
    with connected(ray):
        cpus = cpus_a_task([node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]], at_once)
        task = ray.remote(attempt_with_threads).options(num_cpus=cpus, scheduling_strategy="SPREAD")
        shared_work, todo, running = ray.put(work), iter(jobs), {}
        try:
            while True:
                for job in islice(todo, at_once - len(running)):
                    running[task.remote(cpus, shared_work, job)] = job
                if not running:
                    return
                (done,), _ = ray.wait(list(running))
                job = running.pop(done)
                yield job, unpacked(job, fetched(ray, job, done))
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def attempt(work: Callable[[Job], Result], job: Job) -> bytes:
    """Do a job in a worker; returns the pickled pair (result, error), one of which is None."""
    try:
        return packed_result(work(job))
    except Exception as error:
        return packed_error(error, note="In the worker:\n" + traceback.format_exc())


def attempt_with_threads(threads: int, work: Callable[[Job], Result], job: Job) -> bytes:
    """`attempt`, in a process of Ray's that may have done jobs of other widths before."""
    set_threads(threads)
    return attempt(work, job)


def packed_result(result: object) -> bytes:
    try:
        return pickle.dumps((result, None))
    except UNPICKLABLE as error:
        raise TypeError(f"its result cannot be sent back ({error}); return plain data") from error


def packed_error(error: Exception, note: str) -> bytes:
    """An error with a note; one whose class cannot be unpickled is replaced by its text."""
    error.add_note(note)
    try:
        packed = pickle.dumps((None, error))
        pickle.loads(packed)
    except Exception:
        return packed_error(RuntimeError(described(error)), note)
    return packed


def unpacked(job: Job, packed: bytes) -> Any:
    """The result that `attempt` packed; raises JobError where it packed an error."""
    result, error = pickle.loads(packed)
    if error is not None:
        raise failed(job, error) from error
    return result


def failed(job: object, error: BaseException) -> JobError:
    """The error that names a job and says what went wrong in it."""
    return JobError(f"job {named(job)} failed: {described(error)}")


def described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def named(job: object) -> str:
    return textwrap.shorten(str(job), NAME_WIDTH, placeholder="...")


def refuse_unpicklable(work: object, jobs: Sequence[object]) -> None:
    """Say before anything starts what cannot be sent to another process."""
    for thing, words in [(work, "the work"), *((job, f"job {named(job)}") for job in jobs)]:
        try:
            pickle.dumps(thing)
        except UNPICKLABLE as error:
            raise JobError(f"{words} cannot be sent to another process ({error}); use a module-level function or "
                           "class that holds plain data") from error


def prepare_worker(threads: int) -> None:
    """First thing in a worker process, before torch is imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    set_threads(threads)


def end_with_parent() -> None:
    """Workers of a parent that was killed would wait for jobs for ever, with their models in memory."""
    multiprocessing.parent_process().join()
    os._exit(1)


def set_threads(threads: int) -> None:
    """Threads of torch's operators in this process, whether or not torch is imported yet."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Processes started in here never see Ctrl-C, which a terminal sends to all of them; this one sees it afterwards.

    Without it, one that comes while a worker is still starting prints a traceback there.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cores() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def imported_ray() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise JobError("the engine 'ray' needs the package ray: pip install 'treegraft[ray]'") from error
    return ray


@contextmanager
def connected(ray: ModuleType) -> Iterator[None]:
    """Inside an existing cluster; one is never started, and the caller's own connection stays open."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault(*RAY_PATIENCE)
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="warning")
    except ConnectionError as error:
        raise JobError(f"no Ray cluster ({error}); start one with `ray start --head`, or name one in the environment "
                       "variable RAY_ADDRESS") from error
    except (RuntimeError, ValueError) as error:
        raise JobError(f"the Ray cluster cannot be used: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def cpus_a_task(node_cpus: Sequence[float], at_once: int) -> int:
    """The most CPUs for each of `at_once` tasks that run at the same time; a task stays on one node.

    1 if the cluster has fewer CPUs than tasks: the rest then waits its turn.
    """
    widest = int(max(node_cpus, default=0))
    if widest < 1:
        raise JobError("no node of the Ray cluster offers a CPU; start one with `ray start --num-cpus`")
    fitting = [cpus for cpus in range(1, widest + 1) if sum(have // cpus for have in node_cpus) >= at_once]
    return max(fitting, default=1)


def fetched(ray: ModuleType, job: object, reference: object) -> bytes:
    """What a task returned; raises JobError where Ray could not run it to its end."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        raise JobError(f"Ray could not run job {named(job)}: {getattr(error, 'cause', None) or error} "
                       "(every node needs the same treegraft)") from error

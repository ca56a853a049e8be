"""How long an iteration takes: each kind of work at the rate that the GPU reaches for it."""

from bisect import bisect_right
from dataclasses import dataclass

from nanodyno.config.ramp import Ramp
from nanodyno.costs.calibration import MEASURED_HEAD, Calibration
from nanodyno.costs.setup import Setup
from nanodyno.costs.work import Work, micro_step, per_iteration


@dataclass(frozen=True)
class IterationTime:
    """Predicted seconds. `launch_bound`: the host cannot launch as fast as the GPU computes."""

    micro_step_seconds: float
    once_seconds: float
    micro_steps: int
    tokens: int
    launch_bound: bool

    @property
    def seconds(self) -> float:
        return self.micro_steps * self.micro_step_seconds + self.once_seconds

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    def of_run(self, ramp: Ramp, iterations: int) -> float:
        """Seconds of so many iterations of a batch that grows: by more micro-steps of the same size."""
        micro_steps = ramp.tokens_after(iterations) * self.micro_steps / self.tokens
        return micro_steps * self.micro_step_seconds + iterations * self.once_seconds

    def iterations_within(self, ramp: Ramp, seconds: float) -> int:
        """The most that end by then."""
        first = self.of_run(ramp, 1)
        return bisect_right(range(1, int(seconds / first) + 1), seconds, key=lambda n: self.of_run(ramp, n))


def iteration_time(setup: Setup, calibration: Calibration) -> IterationTime:
    work = micro_step(setup)
    on_gpu = _at_measured_speed(work, setup, calibration)
    launch = calibration.launch_seconds["compiled" if setup.compiled else "eager"]
    launching = 0.0 if setup.cuda_graph else work.kernels * launch
    return IterationTime(
        micro_step_seconds=max(on_gpu, launching),
        once_seconds=_at_measured_speed(per_iteration(setup), setup, calibration),
        micro_steps=setup.micro_steps,
        tokens=setup.tokens_per_iter,
        launch_bound=launching > on_gpu,
    )


def _at_measured_speed(work: Work, setup: Setup, calibration: Calibration) -> float:
    flops = work.product_flops + work.fp8_flops / calibration.fp8_gain + work.attention_flops
    seconds = device_seconds(work, setup, calibration)
    return calibration.seconds_under_power(seconds, flops) / calibration.speed_factor


def unfilled_share(setup: Setup, calibration: Calibration) -> float:
    """Of a micro-step, what the GPU waits for launches, or is at the beginnings and ends of kernels."""
    work = micro_step(setup)
    full = _at_measured_speed(work, setup, calibration) - work.kernels * calibration.kernel_seconds
    return 1 - full / iteration_time(setup, calibration).micro_step_seconds


def device_seconds(work: Work, setup: Setup, calibration: Calibration) -> float:
    products = work.product_flops + work.fp8_flops / calibration.fp8_gain
    traffic = (
        work.product_bytes * calibration.matmul_traffic_share
        + work.moved_bytes
        + work.eager_bytes / calibration.eager_bandwidth_share
    )
    return (
        products / calibration.matmul_flops_per_second
        + work.attention_flops / _attention_flops_per_second(setup, calibration)
        + traffic / calibration.bandwidth_bytes_per_second
        + work.host_bytes / calibration.host_bandwidth_bytes_per_second
        + work.kernels * calibration.kernel_seconds
    )


def _attention_flops_per_second(setup: Setup, calibration: Calibration) -> float:
    """Products go with FLOPs, softmax with scores, of which heads of 128 have half as many a FLOP.

    A backend that was not measured is taken for flash.
    """
    rates, softmax = calibration.attention_flops_per_second, calibration.attention_softmax_share
    longer = 1 - softmax + softmax * MEASURED_HEAD / setup.shape.head_size
    return rates.get(setup.attention, rates["flash"]) / longer

// SPDX-License-Identifier: GPL-2.0
/* The source `timer`: a message at each tick of a high-resolution timer, in a softirq of one CPU. */

#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/smp.h>

#include "compat.h"
#include "ring.h"

static struct {
	struct hrtimer timer;
	struct ring *ring;
	int cpu;
	u64 interval_ns;
	/* Stored by the tick alone. */
	u64 ticks;
	u64 missed;
} source;

/* One change of the timer at a time. */
static DEFINE_MUTEX(setting);

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	struct sidestep_ring_tick message = {
		.stamp_ns = ktime_get_ns(),
		.sequence = source.ticks,
		.missed = source.missed,
	};
	struct ring *ring = source.ring;
	u64 intervals, at;

	spin_lock_bh(&ring->writer);
	at = ring_begin(ring, sizeof(message));
	if (at) {
		sidestep_ring_write(ring->base, at, &message, sizeof(message));
		ring_publish(ring, sizeof(message));
	}
	spin_unlock_bh(&ring->writer);
	ring_wake(ring);
	WRITE_ONCE(source.ticks, source.ticks + 1);
	intervals = hrtimer_forward_now(timer, ns_to_ktime(READ_ONCE(source.interval_ns)));
	WRITE_ONCE(source.missed, source.missed + intervals - 1);
	return HRTIMER_RESTART;
}

static void start_here(void *unused)
{
	hrtimer_start(&source.timer, ns_to_ktime(READ_ONCE(source.interval_ns)), HRTIMER_MODE_REL_PINNED_SOFT);
}

/* Starts the timer on its CPU, where it stays: it is pinned. */
static int start_there(void)
{
	return smp_call_function_single(source.cpu, start_here, NULL, 1);
}

static bool is_interval(u64 interval_ns)
{
	return interval_ns >= SIDESTEP_RING_INTERVAL_NS_MIN && interval_ns <= SIDESTEP_RING_INTERVAL_NS_MAX;
}

int timer_start(struct ring *ring, u64 interval_ns, int cpu)
{
	int error;

	if (!is_interval(interval_ns))
		return -EINVAL;
	hrtimer_setup(&source.timer, tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_SOFT);
	mutex_lock(&setting);
	source.cpu = cpu < 0 ? raw_smp_processor_id() : cpu;
	source.interval_ns = interval_ns;
	source.ring = ring;
	/* -ENXIO if there is no such CPU, or it is off. */
	error = start_there();
	if (error)
		source.ring = NULL;
	mutex_unlock(&setting);
	return error;
}

void timer_stop(void)
{
	/* The device is gone: nobody sets the interval any more. Waits for a tick that is running. */
	if (source.ring)
		hrtimer_cancel(&source.timer);
	source.ring = NULL;
}

int timer_set_interval(u64 interval_ns)
{
	int error;

	if (!is_interval(interval_ns))
		return -EINVAL;
	mutex_lock(&setting);
	if (!source.ring) {
		mutex_unlock(&setting);
		return -ENODEV;
	}
	hrtimer_cancel(&source.timer);
	WRITE_ONCE(source.interval_ns, interval_ns);
	error = start_there();
	if (error) {
		/* Its CPU was switched off: it goes on where this runs. */
		source.cpu = raw_smp_processor_id();
		error = start_there();
	}
	mutex_unlock(&setting);
	return error;
}

void timer_stats(struct sidestep_ring_stats *stats)
{
	stats->ticks = READ_ONCE(source.ticks);
	stats->missed = READ_ONCE(source.missed);
	stats->interval_ns = READ_ONCE(source.interval_ns);
}

// SPDX-License-Identifier: GPL-2.0
/* The module: its parameters, its beginning and its end. */

#include <linux/log2.h>
#include <linux/module.h>
#include <linux/string.h>

#include "ring.h"

static unsigned int cells = 16384;
module_param(cells, uint, 0444);
MODULE_PARM_DESC(cells, "Cells of 64 bytes in the ring: a power of two from 64 to 65536 (16384)");

static char *source = "timer";
module_param(source, charp, 0444);
MODULE_PARM_DESC(source, "What fills the ring: timer or udp (timer)");

static unsigned int interval_us = 1000;
module_param(interval_us, uint, 0444);
MODULE_PARM_DESC(interval_us, "Interval of the timer, us: 10 to 1000000 (1000)");

static int cpu = -1;
module_param(cpu, int, 0444);
MODULE_PARM_DESC(cpu, "CPU of the timer; -1: the one on which the module is loaded (-1)");

static unsigned int port;
module_param(port, uint, 0444);
MODULE_PARM_DESC(port, "Port of the datagrams that source=udp copies: 1 to 65535");

static struct ring ring;

/* The source that runs. */
static bool is_udp;

static int refused(const char *what)
{
	pr_err("sidestep_ring: %s\n", what);
	return -EINVAL;
}

static int check_parameters(void)
{
	if (!is_power_of_2(cells) || cells < RING_CELLS_MIN || cells > RING_CELLS_MAX)
		return refused("cells must be a power of two from 64 to 65536");
	is_udp = !strcmp(source, "udp");
	if (!is_udp && strcmp(source, "timer"))
		return refused("source must be timer or udp");
	if (is_udp && (port < 1 || port > U16_MAX))
		return refused("source=udp needs a port from 1 to 65535");
	if (!is_udp && (interval_us * 1000ULL < SIDESTEP_RING_INTERVAL_NS_MIN ||
			interval_us * 1000ULL > SIDESTEP_RING_INTERVAL_NS_MAX))
		return refused("interval_us must be from 10 to 1000000");
	if (!is_udp && (cpu < -1 || cpu >= (int)nr_cpu_ids))
		return refused("cpu must be one of this host's, or -1");
	return 0;
}

static int start_source(void)
{
	return is_udp ? udp_start(&ring, port) : timer_start(&ring, interval_us * 1000ULL, cpu);
}

static void stop_source(void)
{
	if (is_udp)
		udp_stop();
	else
		timer_stop();
}

static int __init sidestep_ring_init(void)
{
	int error = check_parameters();

	if (error)
		return error;
	error = ring_make(&ring, cells);
	if (error)
		return error;
	error = start_source();
	if (error)
		goto free;
	/* Last: from now on it can be opened, and nothing can fail. */
	error = ring_device_register(&ring);
	if (error)
		goto stop;
	return 0;
stop:
	stop_source();
free:
	ring_free(&ring);
	return error;
}

static void __exit sidestep_ring_exit(void)
{
	/* No descriptor and no mapping is left: they hold the module. */
	ring_device_unregister();
	stop_source();
	ring_free(&ring);
}

module_init(sidestep_ring_init);
module_exit(sidestep_ring_exit);

MODULE_DESCRIPTION("A broadcast ring that the kernel fills and processes poll");
MODULE_AUTHOR("The sidestep developers");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");

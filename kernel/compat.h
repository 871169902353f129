/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between Linux 6.1 and 6.18. Everything else that the module calls is the same in all of them. */
#ifndef SIDESTEP_COMPAT_H
#define SIDESTEP_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>

#ifndef CONFIG_64BIT
#error "words of 64 bits must not be torn: a 64-bit kernel is needed"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif

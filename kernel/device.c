// SPDX-License-Identifier: GPL-2.0
/* /dev/sidestep-ring (include/sidestep/ring_device.h): read-only mappings of the ring, read(2), poll(2), and four calls.
 *
 * A descriptor, and a mapping, hold the module: it cannot be unloaded while there is one. */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "ring.h"

/* Open descriptors, each with a buffer of RING_MESSAGE_BYTES_MAX, for which the allocator takes 16 KiB: 64 MiB at the most. */
#define READERS_MAX 4096
/* Of these, root's alone: whoever may read the device cannot shut the administrator out. */
#define READERS_OF_ROOT 64

/* What belongs to an open descriptor. */
struct reader {
	/* Threads that share the descriptor read one after the other. */
	struct mutex reading;
	struct ring_position at;
	/* Lost, and not told yet. */
	u64 lost;
	/* poll(2) is about messages after these. */
	u64 seen;
	unsigned char message[RING_MESSAGE_BYTES_MAX];
};

static struct ring *the_ring;
static atomic_t readers = ATOMIC_INIT(0);

static bool is_behind(u64 sequence)
{
	return smp_load_acquire(&the_ring->published) > sequence;
}

/* Takes a place of a reader. */
static bool has_place(void)
{
	if (atomic_inc_return(&readers) <= READERS_MAX - READERS_OF_ROOT)
		return true;
	if (capable(CAP_SYS_ADMIN) && atomic_read(&readers) <= READERS_MAX)
		return true;
	atomic_dec(&readers);
	return false;
}

static int device_open(struct inode *inode, struct file *file)
{
	struct reader *reader;

	if (!has_place())
		return -EMFILE;
	/* Charged to the one who opens. */
	reader = kvzalloc(sizeof(*reader), GFP_KERNEL_ACCOUNT);
	if (!reader) {
		atomic_dec(&readers);
		return -ENOMEM;
	}
	mutex_init(&reader->reading);
	reader->at = ring_latest(the_ring);
	reader->seen = reader->at.sequence;
	file->private_data = reader;
	return nonseekable_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	struct reader *reader = file->private_data;

	mutex_destroy(&reader->reading);
	kvfree(reader);
	atomic_dec(&readers);
	return 0;
}

/* The next message, if there is one: -EAGAIN if not. */
static ssize_t read_one(struct reader *reader, char __user *to, size_t size)
{
	struct sidestep_ring_read head;
	int length = ring_read(the_ring, &reader->at, reader->message, &reader->lost);

	if (length < 0)
		return length;
	head.sequence = reader->at.sequence - 1;
	head.lost = reader->lost;
	if (size < sizeof(head) + length || copy_to_user(to, &head, sizeof(head)) ||
	    copy_to_user(to + sizeof(head), reader->message, length)) {
		/* It stays the next one. */
		reader->at.cell -= SIDESTEP_RING_CELLS(length);
		reader->at.sequence--;
		return size < sizeof(head) + length ? -EMSGSIZE : -EFAULT;
	}
	reader->lost = 0;
	WRITE_ONCE(reader->seen, reader->at.sequence);
	return sizeof(head) + length;
}

static ssize_t device_read(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	struct reader *reader = file->private_data;
	ssize_t done;

	if (size == 0)
		return 0;
	for (;;) {
		if (mutex_lock_interruptible(&reader->reading))
			return -ERESTARTSYS;
		done = read_one(reader, to, size);
		mutex_unlock(&reader->reading);
		if (done != -EAGAIN || file->f_flags & O_NONBLOCK)
			return done;
		if (wait_event_interruptible(the_ring->sleepers, is_behind(READ_ONCE(reader->at.sequence))))
			return -ERESTARTSYS;
		/* Overtaken again and again, it has not slept at all. */
		if (signal_pending(current))
			return -ERESTARTSYS;
		cond_resched();
	}
}

static __poll_t device_poll(struct file *file, poll_table *wait)
{
	struct reader *reader = file->private_data;

	poll_wait(file, &the_ring->sleepers, wait);
	/* Pairs with the barrier of wq_has_sleeper: either the writer sees the sleeper, or this sees the message. */
	smp_mb();
	return is_behind(READ_ONCE(reader->seen)) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;
	/* mprotect(2) must not give later what is refused now. */
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	/* Refuses what is not inside, and sets VM_DONTEXPAND and VM_DONTDUMP. All pages are inserted: no reader faults. */
	return remap_vmalloc_range(vma, the_ring->base, vma->vm_pgoff);
}

static long give_info(void __user *to)
{
	struct sidestep_ring_info info = {
		.abi = SIDESTEP_RING_DEVICE_ABI,
		.bytes = the_ring->bytes,
		.cells = the_ring->cells,
	};

	return copy_to_user(to, &info, sizeof(info)) ? -EFAULT : 0;
}

static long give_stats(void __user *to)
{
	struct sidestep_ring_stats stats = {
		.published = READ_ONCE(the_ring->published),
		.dropped = READ_ONCE(the_ring->dropped),
		.readers = atomic_read(&readers),
	};

	timer_stats(&stats);
	return copy_to_user(to, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long take_seen(struct reader *reader, const void __user *from)
{
	u64 seen;

	if (copy_from_user(&seen, from, sizeof(seen)))
		return -EFAULT;
	/* Any value: it delays the wake-ups of this descriptor alone. */
	WRITE_ONCE(reader->seen, seen);
	return 0;
}

static long take_interval(const struct file *file, const void __user *from)
{
	u64 interval_ns;

	if (!(file->f_mode & FMODE_WRITE) && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (copy_from_user(&interval_ns, from, sizeof(interval_ns)))
		return -EFAULT;
	return timer_set_interval(interval_ns);
}

static long device_ioctl(struct file *file, unsigned int call, unsigned long argument)
{
	void __user *at = (void __user *)argument;

	switch (call) {
	case SIDESTEP_RING_INFO:
		return give_info(at);
	case SIDESTEP_RING_STATS:
		return give_stats(at);
	case SIDESTEP_RING_SEEN:
		return take_seen(file->private_data, at);
	case SIDESTEP_RING_SET_INTERVAL:
		return take_interval(file, at);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.read = device_read,
	.poll = device_poll,
	.mmap = device_mmap,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sidestep-ring",
	.fops = &operations,
	/* Datagrams of others may be in there: the administrator gives it to a group (kernel/README.md). */
	.mode = 0640,
};

int ring_device_register(struct ring *ring)
{
	the_ring = ring;
	return misc_register(&device);
}

void ring_device_unregister(void)
{
	misc_deregister(&device);
}

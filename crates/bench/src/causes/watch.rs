//! The tracepoints that are recorded, and what their records mean.

use super::names::{Class, Id, Names};
use sidestep_sys::perf::{Field, Format, Tracefs, Tracepoint};
use std::collections::HashMap;

/// Interrupt vectors of irq_vectors, which are no device's, and what they are for. The kernel does not record irq_work in rings
/// (EPERM), as it uses that itself to wake their readers.
const VECTORS: [(&str, &str); 9] = [
    ("local_timer", "local timer"),
    ("reschedule", "IPI: reschedule"),
    ("call_function", "IPI: function call"),
    ("call_function_single", "IPI: function call"),
    ("x86_platform_ipi", "IPI: platform"),
    ("thermal_apic", "thermal interrupt"),
    ("threshold_apic", "machine check threshold"),
    ("error_apic", "APIC error"),
    ("spurious_apic", "spurious interrupt"),
];
/// The softirqs in the order of their numbers (linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// Bits of `prev_state` that say why a task left the CPU; without them it could have gone on (TASK_REPORT of linux/sched.h).
const SLEEPS: u64 = 0xff;
/// `reason` of tlb_flush: another CPU asked for it (TLB_REMOTE_SHOOTDOWN of linux/mm_types.h).
const REMOTE_SHOOTDOWN: u32 = 1;

/// Something that happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Event {
    /// CLOCK_MONOTONIC_RAW.
    pub(super) ns: u64,
    pub(super) cpu: u32,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// An interrupt or a softirq began.
    Enter(Class, Id),
    /// The last one of this class ended.
    Exit(Class),
    /// Another task runs now.
    Switch { from: Task, could_go_on: bool, to: Task },
    /// A task may run again.
    Woken(u32),
    /// A task goes to another CPU.
    Moved { tid: u32, to: u32 },
    /// Something of a task, or of the CPU where no task is given, without a duration.
    Point { id: Id, tid: Option<u32> },
    /// A non-maskable interrupt ended that took so long.
    Nmi { id: Id, ns: u64 },
}

/// A task by its number in the first pid namespace; 0 is the idle task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) tid: u32,
    pub(super) name: Id,
}

/// The reader of records.
#[derive(Debug)]
pub(super) struct Decoder {
    tracepoints: HashMap<u16, Meaning>,
}

/// What the records of a tracepoint mean, with the fields that say more.
#[derive(Debug)]
enum Meaning {
    Handler { irq: Field, name: Field },
    Vector(Id),
    Softirq { number: Field },
    Exit(Class),
    Switch { from: (Field, Field), state: Field, to: (Field, Field) },
    Woken { tid: Field },
    Moved { tid: Field, to: Field, id: Id },
    OfTask { id: Id, tid: Field },
    OfCpu(Id),
    Nmi { id: Id, took: Field },
}

/// The tracepoints to record, how to read them, and those that this kernel does not have.
pub(super) struct Watch {
    pub(super) tracepoints: Vec<Tracepoint>,
    pub(super) decoder: Decoder,
    pub(super) missing: Vec<String>,
}

impl Watch {
    /// Looks the tracepoints up; the scheduler's only where the numbers of threads are known (`threads` of both ends).
    pub(super) fn find(tracefs: &Tracefs, names: &mut Names, threads: Option<&[u32]>) -> Self {
        let decoder = Decoder { tracepoints: HashMap::new() };
        let mut watch = Self { tracepoints: Vec::new(), decoder, missing: Vec::new() };
        let mut add = |name: &str, filter: String, meaning: &mut dyn FnMut(&Format) -> Option<Meaning>| {
            let found = tracefs.format(name).ok().and_then(|format| Some((format.id, meaning(&format)?)));
            match found {
                Some((id, meaning)) => {
                    watch.tracepoints.push(Tracepoint { name: name.to_owned(), id, filter });
                    watch.decoder.tracepoints.insert(id, meaning);
                }
                None => watch.missing.push(name.to_owned()),
            }
        };
        let all = String::new;
        add("irq/irq_handler_entry", all(), &mut handler);
        add("irq/irq_handler_exit", all(), &mut |_| Some(Meaning::Exit(Class::Interrupt)));
        for (vector, what) in VECTORS {
            let id = names.id(Class::Interrupt, what);
            add(&format!("irq_vectors/{vector}_entry"), all(), &mut |_| Some(Meaning::Vector(id)));
            add(&format!("irq_vectors/{vector}_exit"), all(), &mut |_| Some(Meaning::Exit(Class::Interrupt)));
        }
        add("irq/softirq_entry", all(), &mut |format| Some(Meaning::Softirq { number: format.field("vec")? }));
        add("irq/softirq_exit", all(), &mut |_| Some(Meaning::Exit(Class::Softirq)));
        let id = names.id(Class::Interrupt, "NMI");
        add("nmi/nmi_handler", all(), &mut |format| Some(Meaning::Nmi { id, took: format.field("delta_ns")? }));
        let id = names.id(Class::Event, "TLB flush for another CPU");
        add("tlb/tlb_flush", format!("reason == {REMOTE_SHOOTDOWN}"), &mut |_| Some(Meaning::OfCpu(id)));
        let Some(threads) = threads else { return watch };
        add("sched/sched_switch", all(), &mut switch);
        // The waker's view, and that of the CPU where the task goes: between them lies the IPI to an idle CPU.
        for wakeup in ["sched/sched_waking", "sched/sched_wakeup"] {
            add(wakeup, any_of("pid", threads), &mut |format| Some(Meaning::Woken { tid: format.field("pid")? }));
        }
        let id = names.id(Class::Event, "migration to another CPU");
        add("sched/sched_migrate_task", any_of("pid", threads), &mut |format| {
            Some(Meaning::Moved { tid: format.field("pid")?, to: format.field("dest_cpu")?, id })
        });
        for (fault, what) in [("page_fault_user", "page fault"), ("page_fault_kernel", "page fault in the kernel")] {
            let id = names.id(Class::Event, what);
            add(&format!("exceptions/{fault}"), any_of("common_pid", threads), &mut |format| {
                Some(Meaning::OfTask { id, tid: format.field("common_pid")? })
            });
        }
        watch
    }
}

fn handler(format: &Format) -> Option<Meaning> {
    Some(Meaning::Handler { irq: format.field("irq")?, name: format.field("name")? })
}

fn switch(format: &Format) -> Option<Meaning> {
    let task = |tid, name| Some((format.field(tid)?, format.field(name)?));
    let (from, to) = (task("prev_pid", "prev_comm")?, task("next_pid", "next_comm")?);
    Some(Meaning::Switch { from, state: format.field("prev_state")?, to })
}

/// A filter for the records of these threads.
fn any_of(field: &str, threads: &[u32]) -> String {
    threads.iter().map(|tid| format!("{field} == {tid}")).collect::<Vec<_>>().join(" || ")
}

impl Decoder {
    /// Reads a record; a migration is both a change of place and a point. None for what is not known.
    pub(super) fn read(&self, names: &mut Names, ns: u64, cpu: u32, bytes: &[u8], mut take: impl FnMut(Event)) {
        let meaning = bytes.get(..2).and_then(|id| self.tracepoints.get(&u16::from_ne_bytes([id[0], id[1]])));
        let Some(what) = meaning.and_then(|meaning| meaning.of(names, bytes)) else { return };
        take(Event { ns, cpu, what });
        if let (Some(Meaning::Moved { id, .. }), What::Moved { tid, .. }) = (meaning, what) {
            take(Event { ns, cpu, what: What::Point { id: *id, tid: Some(tid) } });
        }
    }
}

impl Meaning {
    fn of(&self, names: &mut Names, bytes: &[u8]) -> Option<What> {
        let tid = |field: Field| field.number(bytes).map(|tid| tid as u32);
        let task = |names: &mut Names, (tid, name): (Field, Field)| {
            let tid = tid.number(bytes)? as u32;
            let name = match tid {
                0 => names.id(Class::Idle, "CPU leaves idle"),
                _ => names.id(Class::Task, &name.text(bytes)?),
            };
            Some(Task { tid, name })
        };
        Some(match self {
            Self::Handler { irq, name } => {
                let what = format!("{} (IRQ {})", name.text(bytes)?, irq.number(bytes)?);
                What::Enter(Class::Interrupt, names.id(Class::Interrupt, &what))
            }
            Self::Vector(id) => What::Enter(Class::Interrupt, *id),
            Self::Softirq { number } => {
                let number = number.number(bytes)? as usize;
                What::Enter(Class::Softirq, names.id(Class::Softirq, SOFTIRQS.get(number).unwrap_or(&"unknown")))
            }
            Self::Exit(class) => What::Exit(*class),
            Self::Switch { from, state, to } => What::Switch {
                from: task(names, *from)?,
                could_go_on: state.number(bytes)? & SLEEPS == 0,
                to: task(names, *to)?,
            },
            Self::Woken { tid: field } => What::Woken(tid(*field)?),
            Self::Moved { tid: field, to, .. } => What::Moved { tid: tid(*field)?, to: to.number(bytes)? as u32 },
            Self::OfTask { id, tid: field } => What::Point { id: *id, tid: Some(tid(*field)?) },
            Self::OfCpu(id) => What::Point { id: *id, tid: None },
            Self::Nmi { id, took } => What::Nmi { id: *id, ns: took.number(bytes)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_all_threads() {
        assert_eq!(any_of("pid", &[7, 8]), "pid == 7 || pid == 8");
    }

    #[test]
    fn what_is_not_a_record_means_nothing() {
        let decoder = Decoder { tracepoints: HashMap::from([(3, Meaning::Exit(Class::Softirq))]) };
        let mut names = Names::default();
        let mut seen = Vec::new();
        for bytes in [&[][..], &[3], &[9, 0, 0]] {
            decoder.read(&mut names, 1, 0, bytes, |event| seen.push(event));
        }
        assert!(seen.is_empty());
        decoder.read(&mut names, 1, 2, &3_u16.to_ne_bytes(), |event| seen.push(event));
        assert_eq!(seen, [Event { ns: 1, cpu: 2, what: What::Exit(Class::Softirq) }]);
    }
}

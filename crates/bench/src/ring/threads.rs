//! A contestant whose far end is a thread of this process.

use super::{Channel, Contestant, Job, Load, Near, far, lost};
use sidestep_sys::{Problem, cpu};
use std::sync::atomic::{AtomicBool, Ordering};

/// A channel between two threads.
pub struct Threads<C> {
    /// The channel.
    pub channel: C,
    /// Its name: the path of its rows.
    pub name: &'static str,
    /// Its description, in one or two sentences.
    pub description: &'static str,
    /// Set if a side that waits sleeps.
    pub sleeps: bool,
    /// The reason why it cannot stream, if so.
    pub no_stream: Option<&'static str>,
}

impl<C: Channel + Sync> Contestant for Threads<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> String {
        self.description.into()
    }

    fn sleeps(&self) -> bool {
        self.sleeps
    }

    fn refusal(&self, _: u32, load: Load) -> Option<String> {
        self.no_stream.filter(|_| load == Load::Stream).map(Into::into)
    }

    fn run(&self, job: &Job, near: &mut Near) -> Result<(), Problem> {
        let (mut end, ticket) = self.channel.open(job.shape)?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let far = scope.spawn(|| -> Result<(), Problem> {
                // The ticket is dropped when this fails: a near end that sleeps is woken by that.
                let ticket = ticket;
                cpu::restrict(&[job.far_cpu])?;
                far::serve(&mut self.channel.join(ticket)?, job, &stop);
                Ok(())
            });
            let measured = near.measure(&mut end, job, || !far.is_finished());
            stop.store(true, Ordering::Relaxed);
            drop(end);
            let served = far.join().unwrap_or_else(|_| Err(lost("its thread panicked")));
            // Why the far end failed says more than that it is gone.
            served.and(measured)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus_of_ends::choose_cpus;
    use crate::measure::Cpus;
    use crate::ring::{End, Shape, Step, cannot_open};
    use sidestep_sys::clock::{Choice, Clock};
    use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
    use std::time::Duration;

    /// A channel that does wrong on purpose, once.
    struct Faulty(Fault);

    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        FlipsABit,
        Repeats,
        Loses,
        NeverOpens,
    }

    struct FaultyEnd {
        out: Sender<Vec<u8>>,
        back: Receiver<Vec<u8>>,
        fault: Fault,
        sent: u64,
    }

    impl End for FaultyEnd {
        fn send(&mut self, message: &[u8]) -> Step {
            self.sent += 1;
            let mut message = message.to_vec();
            let at = message.len() / 2;
            let is_due = self.sent == 65; // One of those of a stream that are compared byte by byte.
            match self.fault {
                Fault::FlipsABit if is_due => message[at] ^= 1,
                Fault::Loses if is_due => return Step::Done,
                Fault::Repeats if is_due => drop(self.out.send(message.clone())),
                _ => {}
            }
            if self.out.send(message).is_ok() { Step::Done } else { Step::Gone }
        }

        fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
            match self.back.try_recv() {
                Ok(message) => {
                    take(&message);
                    Step::Done
                }
                Err(TryRecvError::Empty) => Step::Again,
                Err(TryRecvError::Disconnected) => Step::Gone,
            }
        }
    }

    impl Channel for Faulty {
        type End = FaultyEnd;
        type Ticket = FaultyEnd;

        fn open(&self, _: Shape) -> Result<(FaultyEnd, FaultyEnd), Problem> {
            if self.0 == Fault::NeverOpens {
                return Err(cannot_open("a test", "it never opens"));
            }
            let ((out, far_in), (far_out, back)) = (channel(), channel());
            let end = |out, back, fault| FaultyEnd { out, back, fault, sent: 0 };
            Ok((end(out, back, Fault::None), end(far_out, far_in, self.0)))
        }

        fn join(&self, ticket: FaultyEnd) -> Result<FaultyEnd, Problem> {
            Ok(ticket)
        }
    }

    fn measure(fault: Fault, load: Load, ms: u64) -> Result<Near, Problem> {
        let Cpus { client, server } = choose_cpus(None, None, true).expect("a CPU is allowed");
        cpu::restrict(&[client]).expect("an allowed CPU");
        let mut near = Near::new(Clock::calibrate(Choice::Auto), Default::default());
        let job = Job {
            shape: Shape { size: 24, messages: 64 },
            load,
            settle: Duration::ZERO,
            duration: Duration::from_millis(ms),
            far_cpu: server.unwrap_or(client),
        };
        let contestant =
            Threads { channel: Faulty(fault), name: "test", description: "", sleeps: false, no_stream: None };
        contestant.run(&job, &mut near).map(|()| near)
    }

    /// Long enough for a fault to come, however busy the CPUs are: it ends the slice.
    const UNTIL_FAULT_MS: u64 = 10_000;

    #[test]
    fn what_arrives_otherwise_than_it_was_sent_is_a_failure() {
        for load in [Load::ClosedLoop, Load::Stream] {
            let found = measure(Fault::None, load, 30).expect("nothing is wrong").found;
            assert!(found.messages > 0 && !found.slice.is_empty(), "{load:?}: {}", found.messages);
            for fault in [Fault::FlipsABit, Fault::Repeats] {
                let problem = measure(fault, load, UNTIL_FAULT_MS).err().expect("damage is noticed").to_string();
                assert!(problem.contains("did not arrive as it was sent"), "{load:?}: {problem}");
            }
        }
        let problem = measure(Fault::Loses, Load::Stream, UNTIL_FAULT_MS).err().expect("a loss is noticed").to_string();
        assert!(problem.contains("came in its place"), "{problem}");
        assert!(measure(Fault::NeverOpens, Load::Stream, 1).is_err());
    }

    #[test]
    fn an_answer_that_never_comes_ends_the_slice() {
        let problem =
            measure(Fault::Loses, Load::ClosedLoop, UNTIL_FAULT_MS).err().expect("silence is noticed").to_string();
        assert!(problem.contains("said nothing for 3 s"), "{problem}");
    }

    #[test]
    fn a_paced_message_counts_from_when_it_was_due() {
        // Due every 100 ns, which mpsc channels between threads do not reach: the schedule runs away from the sender, and
        // only what counts from it can tell.
        let found = measure(Fault::None, Load::Paced(Duration::from_nanos(100)), 30).expect("only slow").found;
        let paced = found.paced.expect("a paced slice");
        assert_eq!((paced.from_actual.len(), paced.lateness.len()), (found.slice.len(), found.slice.len()));
        assert!(found.slice.p50() >= paced.lateness.p50(), "the latency holds what the sender was late by");
        // Where both threads have one CPU between them, a round trip is a time slice, and few fit.
        if found.slice.len() >= 1000 {
            assert!(paced.lateness.p50() > paced.from_actual.p50(), "the sender is late by more than a round trip");
        }
        // Due every millisecond: never more than were due.
        let found = measure(Fault::None, Load::Paced(Duration::from_millis(1)), 30).expect("slow enough").found;
        assert!((1..=31).contains(&found.messages), "{} in 30 ms", found.messages);
    }
}

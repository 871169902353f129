//! The watch as a whole: its threads, its listener, its file, its end.

use crate::options::Options;
use crate::round::End;
use crate::state::{Shared, State};
use crate::textfile::Textfile;
use crate::{event, exposition, hiccups, host, probes};
use rustix::event::{PollFd, PollFlags, poll};
use sidestep_metrics::http;
use sidestep_sys::{Kind, Problem};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The longest wait for a slice that is under way at the end. Afterwards the process ends, and its peer with it.
const LAST_SLICE: Duration = Duration::from_secs(2);
/// How often a single look is asked whether it has been stopped.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// Watches until `stop` can be read, which a signal does.
///
/// # Errors
/// Nothing can be watched, or told.
pub fn watch(options: &Options, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    options.check()?;
    let shared: Shared = Arc::new(Mutex::new(State::new(options)));
    let end = Arc::new(End::default());
    let file = options.file.as_deref().map(Textfile::of).transpose()?;
    // A file that cannot be written is an error before the watch begins, and an event later.
    file.iter().try_for_each(|file| file.write(&exposition::render(&shared)))?;
    if let Some(address) = options.listen {
        let (listener, local) = http::listen(address)?;
        let served = Arc::clone(&shared);
        start("metrics", move || http::serve(&listener, || Ok(exposition::render(&served))))?;
        event::tell(format_args!("serves http://{local}/metrics"));
    }
    let over = start_threads(&shared, &end, options, file.clone())?;
    let told: Vec<String> =
        options.probes.iter().map(|probe| format!("{} {}", probe.path.name, probe.transport)).collect();
    event::tell(format_args!("watches every {:?}: {}", options.every, told.join(", ")));
    wait(stop);
    options.around.stop.store(true, Ordering::Relaxed);
    end.call();
    // The slice of a peer that hangs is not waited for.
    let _ = over.recv_timeout(LAST_SLICE);
    file.iter().for_each(Textfile::remove);
    event::tell("ends");
    Ok(())
}

/// Looks at everything once, and returns it as Prometheus reads it. With a file it is written there instead, and nothing is returned.
///
/// # Errors
/// No probe had figures (what else was seen is in the file, or returned with the problem); it was stopped.
pub fn once(options: &Options) -> Result<(String, Option<Problem>), Problem> {
    options.check()?;
    let file = options.file.as_deref().map(Textfile::of).transpose()?;
    let (tell, told) = sync_channel(1);
    let looking = options.clone();
    start("once", move || {
        let _ = tell.send(look(&looking));
    })?;
    // A peer that hangs is not waited for: its slice ends with the process.
    let (text, is_any_up) = loop {
        match told.recv_timeout(STOP_LOOK) {
            Ok(seen) => break seen,
            Err(RecvTimeoutError::Timeout) if !options.around.stop.load(Ordering::Relaxed) => {}
            Err(_) => {
                return Err(Problem::new(
                    Kind::Interrupted,
                    "stopped",
                    "a signal came before everything was looked at",
                )
                .next("run it again"));
            }
        }
    };
    let text = match &file {
        Some(file) => file.write(&text).map(|()| String::new())?,
        None => text,
    };
    let problem = || {
        Problem::failed("cannot probe", "none of the probes had figures; standard error has the reasons")
            .next("choose other --paths, or see whether the peer serves")
    };
    Ok((text, (!is_any_up && !options.probes.is_empty()).then(problem)))
}

/// One look at everything, and whether a probe had figures.
fn look(options: &Options) -> (String, bool) {
    let shared: Shared = Arc::new(Mutex::new(State::new(options)));
    let is_any_up = probes::once(&shared, options);
    hiccups::once(&shared, &options.hiccup_cpus());
    host::look(&shared, options, true);
    (exposition::render(&shared), is_any_up)
}

fn start_threads(
    shared: &Shared,
    end: &Arc<End>,
    options: &Options,
    file: Option<Textfile>,
) -> Result<Receiver<()>, Problem> {
    let (cpus, options) = (options.hiccup_cpus(), Arc::new(options.clone()));
    {
        let (shared, end, every) = (Arc::clone(shared), Arc::clone(end), options.every);
        if !cpus.is_empty() {
            start("hiccups", move || hiccups::watch(&shared, &end, every, &cpus))?;
        }
    }
    {
        let (shared, end, options) = (Arc::clone(shared), Arc::clone(end), Arc::clone(&options));
        start("host", move || host::watch(&shared, &end, &options))?;
    }
    let (shared, end) = (Arc::clone(shared), Arc::clone(end));
    let (is_over, over) = sync_channel(1);
    let mut writer = Writer { file, is_failing: false };
    start("probes", move || {
        probes::watch(&shared, &end, &options, || writer.write(&shared, &options));
        let _ = is_over.send(());
    })?;
    Ok(over)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop).map_err(|error| {
        Problem::failed("cannot start a thread", error).next("raise the limit of processes: ulimit -u")
    })
}

/// Waits until it can be read.
fn wait(stop: BorrowedFd<'_>) {
    let mut fds = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    while poll(&mut fds, None).is_err_and(|error| error == rustix::io::Errno::INTR) {}
}

/// Writes the file after each round.
struct Writer {
    file: Option<Textfile>,
    is_failing: bool,
}

impl Writer {
    fn write(&mut self, shared: &Shared, options: &Options) {
        let Some(file) = self.file.as_ref().filter(|_| !options.around.stop.load(Ordering::Relaxed)) else { return };
        let written = file.write(&exposition::render(shared));
        match &written {
            Err(problem) if !self.is_failing => event::tell(problem.line()),
            Ok(()) if self.is_failing => event::tell(format_args!("{} is written again", file.path().display())),
            _ => {}
        }
        self.is_failing = written.is_err();
    }
}

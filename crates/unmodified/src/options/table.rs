//! The table of options. A new option is one row here, and its use.

use super::accelerate::Accelerate;
use super::kind::{IoUring, Kind, Log, Range, SPIN_FOR_EVER};
use sidestep_control_api::message::{Mode, Queues};

/// The moment at which an option takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Read by `sidestep run`, before the program starts.
    Launch,
    /// Read once by each process, with its first socket.
    Process,
    /// Read by each socket that is made.
    Socket,
    /// Read by each call.
    Call,
}

impl Scope {
    /// Returns the word for lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Process => "process",
            Self::Socket => "socket",
            Self::Call => "call",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// The name in profiles; the flag has hyphens, the variable capitals.
    pub name: &'static str,
    /// The accepted values; for a number, its bounds come with it.
    pub values: &'static str,
    /// The bounds of a number.
    pub range: Range,
    /// The moment at which it takes effect.
    pub scope: Scope,
    /// The help text.
    pub help: &'static str,
}

impl OptionRow {
    /// Returns the flag of `sidestep run`, without its hyphens in front.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns the environment variable.
    pub fn variable(&self) -> String {
        format!("SIDESTEP_{}", self.name.to_uppercase())
    }

    /// Returns the default as text.
    pub fn default_text(&self) -> String {
        Settings::default().value(self.name).unwrap_or_default()
    }

    /// Returns the accepted values in words, with the bounds of a number.
    pub fn accepted(&self) -> String {
        match self.range {
            Range { greatest: 0, .. } => self.values.to_owned(),
            Range { least, greatest, .. } => format!("{}, {least} to {greatest}", self.values),
        }
    }
}

macro_rules! options {
    ($( $name:ident: $kind:ty = $default:expr, $range:expr, $scope:ident, $values:literal, $help:literal; )*) => {
        /// The options of a program.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(rustdoc::broken_intra_doc_links)] // Help texts, whose brackets are no links.
        pub struct Settings {
            $( #[doc = $help] pub $name: $kind, )*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $name: $default, )* }
            }
        }

        /// All options.
        pub const TABLE: &[OptionRow] = &[
            $( OptionRow {
                name: stringify!($name), values: $values, range: $range, scope: Scope::$scope, help: $help,
            }, )*
        ];

        impl Settings {
            /// Sets one option by its name; the error says what its values are.
            pub(super) fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
                match name {
                    $( stringify!($name) => self.$name = Kind::parse(text, $range)?, )*
                    _ => return Err("there is no such option".into()),
                }
                Ok(())
            }

            /// Returns one option as text, which `Self::set` reads back; `None` if there is none of this name.
            pub fn value(&self, name: &str) -> Option<String> {
                match name {
                    $( stringify!($name) => Some(self.$name.text()), )*
                    _ => None,
                }
            }
        }
    };
}

/// No bounds: not a number.
const TEXT: Range = Range { least: 0, greatest: 0, is_power_of_two: false };

const fn range(least: u32, greatest: u32) -> Range {
    Range { least, greatest, is_power_of_two: false }
}

/// Frames are counted in powers of two, as the rings are.
const FRAMES: Range = Range { is_power_of_two: true, ..range(512, 1 << 20) };

options! {
    profile: String = "latency".into(), TEXT, Launch, "latency, throughput, safe, or FILE",
        "The profile: values for the options below. `custom`: none, the defaults of this table.";
    interface: Option<String> = None, TEXT, Process, "any or NAME",
        "The interface whose traffic goes past the kernel. `any`: that of the first socket's route.";
    queues: Queues = Queues::Any, TEXT, Process, "any, every, or numbers such as 0,2-3",
        "The queues of the interface. `any`: one free queue; `every`: all that are free. A port is accelerated only if every queue that may bring its packets is the program's.";
    mode: Mode = Mode::ZeroCopy, TEXT, Process, "zero-copy, copy, or generic",
        "The fastest mode of AF_XDP to try; slower ones follow if driver or kernel refuse it.";
    frames: u32 = 4096, FRAMES, Process, "a power of two",
        "Frames of 2 KiB for each queue, half of them for receiving. In copy mode as few as 256 of them wait for packets while those come one by one.";
    spin_us: u32 = 100_000, range(0, SPIN_FOR_EVER), Call, "microseconds",
        "The time for which a call that waits (recv, poll, epoll_wait, accept...) polls the interface before it sleeps. 4294967295: it never sleeps.";
    accelerate: Accelerate = Accelerate::default(), TEXT, Socket, "all, none, or rules such as tcp::6379,!198.18.0.0/15",
        "The sockets to accelerate. The first rule that matches a socket's local or remote end decides; `!` leaves sockets to the kernel. A rule is [!][tcp:|udp:][ADDRESS[/PREFIX]][:PORT[-PORT]], an IPv6 address in brackets. Without a match a socket is accelerated if all rules begin with `!`.";
    tcp: String = "latency".into(), TEXT, Process, "latency, default, or FILE",
        "The settings of TCP past the kernel: a profile that comes with sidestep, or a file of the same form (profiles/default.toml).";
    linger_ms: u32 = 2_000, range(0, 600_000), Process, "milliseconds",
        "The time for which an ending program waits until the peers have what it sent, where the kernel cannot take a connection over.";
    helper_cpu: Option<u32> = None, range(0, 8191), Process, "any, or the number of a CPU",
        "The CPU of the thread that serves the sockets while no thread of the program is in a call.";
    io_uring: IoUring = IoUring::Kernel, TEXT, Launch, "kernel or ignore",
        "What to do with a program that is linked with liburing. io_uring cannot be intercepted: a request on an accelerated socket fails as on one that is not connected (ENOTCONN, EPIPE). `kernel`: the kernel carries all its sockets; `ignore`: accelerate it, because it uses io_uring for files alone.";
    status_sockets: u32 = 2048, range(16, 131_072), Process, "a number",
        "Sockets that the status page, from which sidestep ps and top read, has room for: 256 bytes each. Further ones are counted.";
    log: Log = Log::Stderr, TEXT, Process, "stderr, syslog, none, or FILE",
        "The place for what the library reports.";
    why: bool = false, TEXT, Socket, "true or false",
        "Report the path of each socket, and the reason if it is the kernel's.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_that_reads_back() {
        for row in TABLE {
            let mut settings = Settings::default();
            settings.set(row.name, &row.default_text()).unwrap_or_else(|why| panic!("{}: {why}", row.name));
            assert_eq!(settings, Settings::default(), "{}", row.name);
            assert_eq!(TABLE.iter().filter(|other| other.name == row.name).count(), 1);
            assert!(!row.help.is_empty() && row.help.ends_with('.'), "{}", row.name);
        }
        assert!(Settings::default().set("spin", "1").is_err() && Settings::default().value("spin").is_none());
    }

    #[test]
    fn numbers_outside_of_their_bounds_are_refused() {
        for row in TABLE.iter().filter(|row| row.range.greatest > 0) {
            let Range { least, greatest, is_power_of_two } = row.range;
            let mut settings = Settings::default();
            assert_eq!(settings.set(row.name, &least.to_string()), Ok(()));
            assert_eq!(settings.set(row.name, &greatest.to_string()), Ok(()));
            assert_eq!(settings.set(row.name, &(least + 1).to_string()).is_ok(), !is_power_of_two, "{}", row.name);
            assert!(settings.set(row.name, &(u64::from(greatest) + 1).to_string()).is_err(), "{}", row.name);
            assert!(least == 0 || settings.set(row.name, &(least - 1).to_string()).is_err(), "{}", row.name);
            assert!(settings.set(row.name, "-1").is_err() && settings.set(row.name, "").is_err());
        }
    }
}

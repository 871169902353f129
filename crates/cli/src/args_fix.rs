//! The flags of `sidestep fix`.

use crate::values::duration;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Fix {
    /// Run an exchange that acknowledges and fills every order at once
    Exchange(Exchange),
    /// Log on, send orders or the messages of a file, print the answers
    Send(Box<Send>),
    /// Decode messages: journals, logs of QuickFIX, raw FIX from a file or standard input
    Decode(Decode),
    /// List the sessions of a running engine
    Sessions(Sessions),
    /// Set the sequence numbers of a session of a running engine
    Reset(Reset),
}

#[derive(Debug, Args)]
#[command(override_usage = "sidestep fix exchange --listen <ADDRESS> [OPTIONS]
       sidestep fix exchange --cfg <FILE> [OPTIONS]")]
pub(crate) struct Exchange {
    /// Address to listen on: HOST:PORT, unix:PATH, shm:PATH, xdp:INTERFACE:ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", required_unless_present = "cfg")]
    pub(crate) listen: Vec<String>,
    /// Settings file with the sessions: QuickFIX's .cfg, or .toml
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "store", "store_path", "tls_cert"])]
    pub(crate) cfg: Option<PathBuf>,
    /// Store of messages and sequence numbers [default: none]
    #[arg(long, value_enum)]
    pub(crate) store: Option<Store>,
    /// Folder of the store [default: fix-store]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) store_path: Option<PathBuf>,
    /// Accept the loss of a damaged journal, and go on; the damaged files are set aside
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Our certificate (PEM); enables TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Trusted authorities (PEM) for client certificates, which are then required
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) thread: Thread,
    /// Unix socket for `sidestep fix sessions` and `fix reset`
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: Option<PathBuf>,
    /// Metrics for Prometheus: over HTTP at ADDRESS:PORT, or in a file that is written once a second
    #[arg(long, value_name = "ADDRESS|FILE")]
    pub(crate) metrics: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Thread {
    /// Never sleep: the lowest latency, at the cost of a CPU
    #[arg(long)]
    pub(crate) spin: bool,
    /// Run on this CPU
    #[arg(long)]
    pub(crate) cpu: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// Memory only
    None,
    /// A journal that survives a crash of the process
    PageCache,
    /// A journal that survives a crash of the machine: messages are sent after they are on disk
    GroupCommit,
}

#[derive(Debug, Args)]
#[command(override_usage = "sidestep fix send --to <ADDRESS> [OPTIONS]
       sidestep fix send --cfg <FILE> [OPTIONS]")]
pub(crate) struct Send {
    /// Addresses to connect to, in order: HOST:PORT, unix:PATH, shm:PATH, xdp:INTERFACE:ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", required_unless_present = "cfg", value_delimiter = ',')]
    pub(crate) to: Vec<String>,
    /// Settings file with an initiator's session: QuickFIX's .cfg, or .toml
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["to", "begin", "sender", "target", "store_path", "tls_ca"])]
    pub(crate) cfg: Option<PathBuf>,
    /// Session of that file, if it has several: FIX.4.4:CLIENT->EXCHANGE
    #[arg(long, value_name = "SESSION", requires = "cfg")]
    pub(crate) session: Option<String>,
    /// BeginString
    #[arg(long, default_value = "FIX.4.4", value_name = "VERSION")]
    pub(crate) begin: String,
    /// Our CompID
    #[arg(long, default_value = "CLIENT", value_name = "COMPID")]
    pub(crate) sender: String,
    /// The counterparty's CompID
    #[arg(long, default_value = "EXCHANGE", value_name = "COMPID")]
    pub(crate) target: String,
    /// Messages to send instead of orders, one per line, with `|` or SOH between fields. Session fields are replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Number of orders to send
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) count: u64,
    /// Answers expected for each order: an acknowledgement and a fill. Fewer are a failure (exit code 1)
    #[arg(long, default_value_t = 2, value_name = "N", conflicts_with = "file")]
    pub(crate) answers: u64,
    /// Symbol (55) of the orders
    #[arg(long, default_value = "TEST", value_name = "SYMBOL")]
    pub(crate) symbol: String,
    /// Side (54) of the orders
    #[arg(long, value_enum, default_value_t = Side::Buy)]
    pub(crate) side: Side,
    /// OrderQty (38) of the orders
    #[arg(long, default_value = "100", value_name = "QTY")]
    pub(crate) qty: String,
    /// Price (44) of the orders
    #[arg(long, default_value = "10.25", value_name = "PRICE")]
    pub(crate) price: String,
    /// Time to wait for the Logon, and for each answer after the last message
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub(crate) wait: Duration,
    /// Begin with sequence number 1 (ResetSeqNumFlag)
    #[arg(long)]
    pub(crate) reset: bool,
    /// Trusted authorities (PEM); enables TLS
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Our certificate, for mutual TLS
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the server's certificate must be for
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    pub(crate) tls_name: Option<String>,
    /// Keep messages and sequence numbers in a journal in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) store_path: Option<PathBuf>,
    /// Accept the loss of a damaged journal, and go on; the damaged files are set aside
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) thread: Thread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    Buy,
    Sell,
}

#[derive(Debug, Args)]
pub(crate) struct Decode {
    /// Journal segments, folders of journals, logs or files of messages [default: standard input]
    pub(crate) files: Vec<PathBuf>,
    /// Data dictionary (QuickFIX's XML) for names, instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) dictionary: Option<PathBuf>,
    /// Print JSON, one line per message
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// Admin socket of the engine
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: PathBuf,
    /// Print JSON, one line per session
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Reset {
    /// The session, as `sidestep fix sessions` prints it
    pub(crate) session: String,
    /// Admin socket of the engine
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: PathBuf,
    /// Next outbound sequence number, set while the session is not connected [default: both become 1]
    #[arg(long, value_name = "N", requires = "inbound")]
    pub(crate) outbound: Option<u64>,
    /// Next inbound sequence number
    #[arg(long, value_name = "N", requires = "outbound")]
    pub(crate) inbound: Option<u64>,
}

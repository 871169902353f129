//! The flags of `sidestep fix`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Fix {
    /// Be an exchange that acknowledges and fills every order at once
    Exchange(Exchange),
    /// Log on, send orders or the messages of a file, show what comes back
    Send(Box<Send>),
    /// Explain messages: journals, logs of QuickFIX, raw FIX from a file or standard input
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
    /// Where to listen: HOST:PORT, unix:PATH, shm:PATH, xdp:INTERFACE:ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", required_unless_present = "cfg")]
    pub(crate) listen: Vec<String>,
    /// Sessions and everything else by a file of settings: QuickFIX's .cfg, or .toml
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "store", "store_path", "tls_cert"])]
    pub(crate) cfg: Option<PathBuf>,
    /// What is kept of messages and numbers [default: none]
    #[arg(long, value_enum)]
    pub(crate) store: Option<Store>,
    /// Where it is kept [default: fix-store]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) store_path: Option<PathBuf>,
    /// Go on with a damaged journal, without what is lost; the damaged files are set aside
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Our certificate (PEM): connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Whom to trust: clients must have a certificate, too
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) thread: Thread,
    /// A Unix socket for `sidestep fix sessions` and `reset`
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: Option<PathBuf>,
    /// Metrics for Prometheus: at ADDRESS:PORT by HTTP, or into a file once a second
    #[arg(long, value_name = "ADDRESS|FILE")]
    pub(crate) metrics: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Thread {
    /// Never sleep: a CPU for the shortest time
    #[arg(long)]
    pub(crate) spin: bool,
    /// Run on this CPU
    #[arg(long)]
    pub(crate) cpu: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// Nothing beyond the process
    None,
    /// A journal that survives the process
    PageCache,
    /// A journal that survives the machine: messages leave once the disk has them
    GroupCommit,
}

#[derive(Debug, Args)]
#[command(override_usage = "sidestep fix send --to <ADDRESS> [OPTIONS]
       sidestep fix send --cfg <FILE> [OPTIONS]")]
pub(crate) struct Send {
    /// Where to connect: HOST:PORT, unix:PATH, shm:PATH, xdp:INTERFACE:ADDRESS:PORT; others follow if it fails
    #[arg(long, value_name = "ADDRESS", required_unless_present = "cfg", value_delimiter = ',')]
    pub(crate) to: Vec<String>,
    /// An initiator's session by a file of settings: QuickFIX's .cfg, or .toml
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["to", "begin", "sender", "target", "store_path", "tls_ca"])]
    pub(crate) cfg: Option<PathBuf>,
    /// Which of the sessions in that file, where it has several: FIX.4.4:CLIENT->EXCHANGE
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
    /// Messages to send instead of orders, one a line, `|` or SOH between fields; session fields are ours
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Orders to send
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) count: u64,
    /// Answers that each order has to get: an acknowledgement and a fill. Fewer are a failure (exit code 1)
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
    /// How long to wait for the Logon, and for the next answer when all is sent
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) wait: Duration,
    /// Begin with sequence number 1 (ResetSeqNumFlag)
    #[arg(long)]
    pub(crate) reset: bool,
    /// Whom to trust (PEM): the connection is encrypted
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Our certificate, for mutual TLS
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the server's certificate must be for
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    pub(crate) tls_name: Option<String>,
    /// Keep messages and numbers in a journal in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) store_path: Option<PathBuf>,
    /// Go on with a damaged journal, without what is lost; the damaged files are set aside
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
    /// Journal segments, folders of journals, logs or files of messages; standard input if there is none
    pub(crate) files: Vec<PathBuf>,
    /// Names from this dictionary (QuickFIX's XML) instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) dictionary: Option<PathBuf>,
    /// As JSON, a line per message
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// The engine's admin socket
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: PathBuf,
    /// As JSON, a line per session
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Reset {
    /// The session as `sidestep fix sessions` names it
    pub(crate) session: String,
    /// The engine's admin socket
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: PathBuf,
    /// The next number to be sent, while nobody is connected [default: both become 1]
    #[arg(long, value_name = "N", requires = "inbound")]
    pub(crate) outbound: Option<u64>,
    /// The next number expected
    #[arg(long, value_name = "N", requires = "outbound")]
    pub(crate) inbound: Option<u64>,
}

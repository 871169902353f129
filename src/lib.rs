#![doc = include_str!("overview.md")]
#![forbid(unsafe_code)]

/// The error type of set-up calls: what failed, why, and the next step.
///
/// Calls on a hot path have small errors of their own: [`engine::Error`], [`udp::SendError`], [`tcp::TcpError`],
/// [`ring::ClaimError`], [`fix::session::SendError`].
pub mod error {
    #[doc(inline)]
    pub use sidestep_sys::{Kind, Problem};
}

/// The event loop of sockets past the kernel: one interface, its queues, one thread.
pub mod engine {
    #[doc(inline)]
    pub use sidestep_control_api::message::{BusyPoll, Missing, Mode, Queues};
    #[doc(inline)]
    pub use sidestep_frame::{FrameFacts, Sender, xdp::Kick};
    #[doc(inline)]
    pub use sidestep_socket::{Checksums, Engine, EngineOptions, Error, Path, Reason};

    /// Facts about the AF_XDP sockets beneath an engine, as the kernel granted them.
    pub mod xdp {
        #[doc(inline)]
        pub use sidestep_sys::xdp::{BusyPoll, Downgrade, Geometry, Mode, Pages, RingSizes, XskFacts};
    }
}

/// Datagram sockets and multicast groups of an [`engine`].
pub mod udp {
    #[doc(inline)]
    pub use sidestep_socket::{
        Datagram, Handle, Message, MulticastOut, Reserved, SendError, Statistics, UdpOptions, Undelivered,
    };
}

/// Streams and listeners of an [`engine`].
pub mod tcp {
    #[doc(inline)]
    pub use sidestep_socket::tcp::{
        Config, Counter, Lost, Options, Readiness, Shutdown, Tcp, TcpError, TcpEvent, TcpListener, TcpStream, profile,
    };
    #[doc(inline)]
    pub use sidestep_stack::tcp::{
        Congestion, Error, Facts, Flow, Instant, KeepAlive, Setting, SettingError, State, Value,
    };
    #[doc(inline)]
    pub use sidestep_wire::{Addresses, checksum::Sum};
}

/// Byte streams, one type whatever carries them: kernel sockets, io_uring, shared memory, an [`engine`].
pub mod stream {
    #[doc(inline)]
    pub use sidestep_socket::stream::{
        Accepted, Backend, Connecting, Credentials, Endpoint, Io, KernelStream, Listener, Options, Script, ShmStream,
        Stream, UringStream, Waiting, XdpStream, connect, connect_shm, is_out_of_descriptors, is_retry,
    };

    /// Settings of connections through memory that two processes of one host share.
    pub mod shm {
        #[doc(inline)]
        pub use sidestep_socket::stream::shm::{RING_BYTES_MAX, RING_BYTES_MIN, Refusals, Settings, Users};
    }
}

/// Datagrams to one peer, one type whatever carries them: UDP by the kernel or io_uring, shared memory, an [`engine`].
pub mod datagram {
    #[doc(inline)]
    pub use sidestep_socket::datagram::{
        DatagramSocket, KernelDatagrams, ShmDatagrams, ShmListener, UdpPort, UringDatagrams, XdpDatagrams, connect_shm,
    };
}

/// Rings at the speed of one cache line, in a process and in memory that processes share.
pub mod ring {
    #[doc(inline)]
    pub use sidestep_ring::layout;
    #[doc(inline)]
    pub use sidestep_ring::{
        Access, Backing, Cell, ClaimError, Deadline, Doorbell, Fault, Flow, Holder, Kind, Loss, Options, Peer,
        ReadError, Segment, Side, Stat, WaitError, Waking,
    };
    #[doc(inline)]
    pub use sidestep_sys::process::Process;

    /// One writer, one reader, messages of any size.
    pub mod spsc {
        #[doc(inline)]
        pub use sidestep_ring::spsc::{Batch, Claim, Consumer, Message, Producer, Resume, pair, pair_of};
    }

    /// One writer that never waits, any number of readers, each of which knows exactly what it lost.
    pub mod broadcast {
        #[doc(inline)]
        pub use sidestep_ring::broadcast::{Publisher, Start, Subscriber, pair, pair_of};
    }

    /// Packets that the kernel copies into rings: groups, ports and taps, for any number of readers.
    pub mod flow {
        #[doc(inline)]
        pub use sidestep_socket::ring_flow::{
            Entry, EntryId, EntryPath, FACTS_BYTES, Flow, FlowOptions, Packet, Protocol, QueueStatistics, Statistics,
            Verdict,
        };
    }
}

/// Idle strategies of a thread that has no work: spin, yield, park.
pub mod idle {
    #[doc(inline)]
    pub use sidestep_sys::idle::{FOREVER_NS, Idle, IdleStrategy, Pause};
}

/// FIX 4.0 to 4.4 and FIXT.1.1 with 5.0, 5.0 SP1 and 5.0 SP2.
///
/// The [`engine`](fix::engine) carries [sessions](fix::session) over any transport. [`decode`](fix::decode), [`encode`](fix::encode)
/// and [`frame`](fix::frame) are its codec, for use without sessions: bytes in, bytes out, no allocation per message.
pub mod fix {
    #[doc(inline)]
    pub use sidestep_fix::{Now, SOH, tag};

    /// Settings files, in QuickFIX's format and in TOML.
    pub mod config {
        #[doc(inline)]
        pub use sidestep_fix::config::{Config, Dictionaries, DictionaryConfig, Place, SessionConfig, read_dictionary};
    }

    /// One message, indexed in place.
    pub mod decode {
        #[doc(inline)]
        pub use sidestep_fix::decode::{DataFields, Entries, Entry, FIELDS_MAX, FieldError, Index, Message};
    }

    /// The fields, messages and groups of a version of FIX.
    pub mod dictionary {
        #[doc(inline)]
        pub use sidestep_fix::dictionary::{
            Dictionary, FieldDefinition, Kind, Member, MessageDefinition, Section, Version,
        };
    }

    /// Messages written behind each other into one buffer.
    pub mod encode {
        #[doc(inline)]
        pub use sidestep_fix::encode::{Builder, Encoder, MESSAGE_BYTES_MAX, Parties, Rejected};
    }

    /// Acceptors and initiators, their sessions and transports, on one thread.
    pub mod engine {
        #[doc(inline)]
        pub use sidestep_fix::engine::{
            AcceptorId, AdminSocket, AllowedAddress, Asker, CertificateFiles, CertificateName, Destinations, Endpoint,
            Engine, Handle, Refusals, SessionPlan, SocketOptions, StorePlan, TlsSettings, ask, session_folder,
        };
    }

    /// A stream of bytes, cut into messages by BodyLength.
    pub mod frame {
        #[doc(inline)]
        pub use sidestep_fix::frame::{Counters, Fault, Framer, Garbled, MESSAGE_BYTES_LIMIT, MESSAGE_BYTES_MAX};
    }

    /// The days and times at which a session is open.
    pub mod schedule {
        #[doc(inline)]
        pub use sidestep_fix::schedule::{Schedule, ScheduleText, Time, TimeZone, Weekday, Window};
    }

    /// The rules of a session, without input or output.
    pub mod session {
        #[doc(inline)]
        pub use sidestep_fix::session::{
            Application, BusinessReason, CancelOn, Counters, End, Outbox, Phase, Refusal, RejectReason, Role, Rules,
            SendError, Session, SessionId, SessionSettings, Throttle, Validate,
        };
    }

    /// Sent messages, kept for resending.
    pub mod store {
        #[doc(inline)]
        pub use sidestep_fix::store::{AnyStore, MEMORY_BYTES_DEFAULT, MemoryStore, Store, Visit};

        /// A store on disk that survives crashes.
        pub mod journal {
            #[doc(inline)]
            pub use sidestep_fix::store::journal::{
                Durability, Entry, Journal, Kind, Options, Recovery, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX,
                SEGMENT_BYTES_MIN, Segment, Writing, needed_segments, read_segment,
            };
        }
    }

    /// A message, held against a dictionary.
    pub mod validate {
        #[doc(inline)]
        pub use sidestep_fix::validate::{Reason, Rejection, USER_DEFINED_MIN, ValidationOptions, Validator, validate};
    }

    /// The data types of FIX.
    pub mod value {
        #[doc(inline)]
        pub use sidestep_fix::value::{
            Decimal, Precision, UtcDate, UtcTime, UtcTimestamp, boolean, character, integer, unsigned,
        };
    }
}

/// Market data: protocols, arbitration of lines, recovery, order books, order entry; and the handler that runs them over sockets.
///
/// All but the [`feed_handler`](market::feed_handler) is sans-IO: bytes and time in, events and actions out.
pub mod market {
    #[doc(inline)]
    pub use sidestep_market::units::{
        Alpha, LineId, Locate, Mpid, Nanos, OrderReference, Price, Sequence, Side, Symbol,
    };

    /// Lines, merged into one sequence of messages.
    pub mod arbiter {
        #[doc(inline)]
        pub use sidestep_market::arbiter::{
            Arbiter, Delivery, Histogram, Limits, LineKind, LineStatistics, Origin, Placed,
        };
    }

    /// Order books of all instruments of a channel.
    pub mod book {
        #[doc(inline)]
        pub use sidestep_market::book::{
            Ahead, Book, Books, Change, Depth, Limits, Order, PriceLevel, Refusal, Suspect, Touched,
        };

        /// Books of levels by number, as CME sends them.
        pub mod by_price {
            #[doc(inline)]
            pub use sidestep_market::book::by_price::{Action, Book, DEPTH_MAX, Level, Refusal};
        }
    }

    /// Captures of datagrams: pcap, pcapng, BinaryFILE.
    pub mod capture {
        #[doc(inline)]
        pub use sidestep_market::capture::{
            BinaryFile, BinaryFileWriter, Capture, CaptureError, Datagram, End, INTERFACES_MAX, Interface, InterfaceId,
            LinkType, NotUdp, PACKET_BYTES_MAX, Packet, Writer, datagram,
        };
    }

    /// Normalised events, 56 bytes each.
    pub mod event {
        #[doc(inline)]
        pub use sidestep_market::event::{EVENT_BYTES, Event, Events, Flags, Kind, Origin, Unknown};
    }

    /// One channel: lines in, messages in order out, and what is to be done when some are missing.
    pub mod feed {
        #[doc(inline)]
        pub use sidestep_market::feed::{Action, Adoption, Counters, Feed, Handler, Join, Policy, Refused, State, Why};
    }

    /// Market data from the wire to books, on one thread.
    pub mod feed_handler {
        #[doc(inline)]
        pub use sidestep_feed_handler::{
            Application, Arrival, Channel, ChannelOptions, Counters, Directory, FeedHandler, LINES_MAX, Line,
            LineOptions, Lines, Options, Publication, SERVERS_MAX, SOURCES_MAX, SnapshotServer, Update, Wanted,
            line_kinds, name, recovery_line,
        };
    }

    /// The framing of datagrams, for protocols of one's own.
    pub mod framing {
        #[doc(inline)]
        pub use sidestep_market::framing::{Body, Framing, Head};
    }

    /// Snapshots by GLIMPSE 5.0.
    pub mod glimpse {
        #[doc(inline)]
        pub use sidestep_market::glimpse::{Client, Event, Failure, Limits, State};
    }

    /// TotalView-ITCH 5.0.
    pub mod itch {
        #[doc(inline)]
        pub use sidestep_market::itch::{
            AddOrder, AddOrderMpid, BrokenTrade, COMMON_BYTES, CrossTrade, DirectListing, IpoQuotingPeriod,
            LEVEL_DECIMALS, LuldAuctionCollar, MESSAGE_BYTES_MAX, Malformed, MarketParticipantPosition, Message,
            MwcbDeclineLevel, MwcbStatus, NetOrderImbalance, OperationalHalt, OrderCancel, OrderDelete, OrderExecuted,
            OrderExecutedWithPrice, OrderReplace, PRICE_DECIMALS, RegShoRestriction, RetailInterest, StockDirectory,
            StockTradingAction, SystemEvent, Trade, Value,
        };
    }

    /// MoldUDP64.
    pub mod mold64 {
        #[doc(inline)]
        pub use sidestep_market::mold64::{
            HEADER_BYTES, LENGTH_BYTES, MESSAGES_MAX, Malformed, Messages, Mold64, NoRoom, Packet, PacketWriter,
            Request, Session, ShortRequest,
        };
    }

    /// Orders by OUCH 5.0.
    pub mod ouch {
        #[doc(inline)]
        pub use sidestep_market::ouch::{
            Accepted, AccountQuery, Answer, Appendage, BrokenTrade, BuildError, CancelOrder, CancelPending,
            CancelRejected, Cancelled, Capacity, Change, ClOrdId, Counters, CrossType, Display, Element, Elements,
            EnterOrder, Executed, Limits, Malformed, Modified, ModifyOrder, OpenOrders, Order, OrderSide,
            PRICE_DECIMALS, PRICE_MARKET, PRICE_MAX, PriorityUpdate, QUANTITY_MAX, QueryResponse, Refused, Rejected,
            ReplaceOrder, Replaced, Request, Restated, SelfMatchCancelled, Stage, SystemEvent, TimeInForce, UserRefNum,
        };
    }

    /// Events and best bids and offers, for other processes of the host.
    pub mod publish {
        #[doc(inline)]
        pub use sidestep_market::publish::{
            Channel, Directory, Instrument, Interest, Level, State, SubscribeError, Subscriber, Top, Tops, Update,
        };
    }

    /// What views need that `sidestep market generate` has written.
    pub mod sbe {
        #[doc(inline)]
        pub use sidestep_market::sbe::{
            Char, Dimension, End, Entries, Entry, Fields, Group, Header, Length, Malformed, MessageHeader, NESTING_MAX,
            NestedEntry, NestedGroup, Part, Received, Show, Stage, Tail, Unwritable, Value, Walker, Writer, chunk,
            chunk_mut, field, present, put, text, walk_group, walk_nested,
        };
    }

    /// SoupBinTCP 3.00, the session protocol of OUCH and GLIMPSE.
    pub mod soup {
        #[doc(inline)]
        pub use sidestep_market::soup::{
            Client, Counters, End, Event, LoginAccepted, LoginRequest, Malformed, Outbox, PACKET_BYTES_MAX,
            PAYLOAD_BYTES_MAX, Packet, Password, Rejection, SendError, SessionName, Settings, State, UserName,
        };
    }
}

/// The program in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

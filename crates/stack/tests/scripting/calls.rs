//! What the application, the routers and the observer do in a script.

use super::parse::{PAYLOAD_BYTES_MAX, duration_ns, number};
use super::play::{Play, byte, here, there};
use sidestep_stack::tcp::{
    Config, Congestion, Counter, Error, Facts, Flow, KeepAlive, Options, Readiness, Shutdown, Undelivered,
};

/// Does what the words say; gives the result as a script writes it.
pub fn call(play: &mut Play, words: &[&str]) -> Result<String, String> {
    match *words {
        ["listen"] => listen(play, 16),
        ["listen", backlog] => listen(play, number(backlog)? as usize),
        ["unlisten"] => {
            let listener = play.listener.take().ok_or("nobody listens")?;
            Ok(told(play.call(|tcp, now, sink| tcp.close_listener(now, listener, sink)).map(|()| "ok".into())))
        }
        ["connect"] => {
            let (options, remote) = (play.tcp.config().options(), there(play.port));
            let made = play.call(|tcp, now, sink| tcp.connect(now, here(), remote, None, options, sink));
            Ok(told(made.map(|id| {
                play.id = Some(id);
                "ok".into()
            })))
        }
        ["accept"] => {
            let listener = play.listener.ok_or("nobody listens")?;
            let accepted = play.tcp.accept(listener);
            Ok(told(accepted.map(|id| {
                play.id = Some(id);
                (play.sent, play.read) = (0, 0);
                "ok".into()
            })))
        }
        ["peer", port] => {
            play.port = 5000 + number(port)? as u16 % 1000;
            Ok("ok".into())
        }
        ["send", bytes] => send(play, number(bytes)?.min(PAYLOAD_BYTES_MAX) as usize),
        ["read", most] => read(play, number(most)?.min(1 << 20) as usize),
        ["shutdown", how] => {
            let how = match how {
                "read" => Shutdown::Read,
                "write" => Shutdown::Write,
                "both" => Shutdown::Both,
                _ => return Err("shutdown read, write or both".into()),
            };
            let id = play.id.ok_or("no connection")?;
            Ok(told(play.call(|tcp, now, sink| tcp.shutdown(now, id, how, sink)).map(|()| "ok".into())))
        }
        ["close"] => {
            let id = play.id.ok_or("no connection")?;
            Ok(told(play.call(|tcp, now, sink| tcp.close(now, id, sink)).map(|()| "ok".into())))
        }
        ["abort"] => {
            let id = play.id.ok_or("no connection")?;
            Ok(told(play.call(|tcp, now, sink| tcp.abort(now, id, sink)).map(|()| "ok".into())))
        }
        ["option", ..] => option(play, &words[1..]),
        ["too_big", mtu, seq] => {
            let (flow, sequence, mtu) = (flow(play)?, play.number_of_ours(number(seq)?), number(mtu)? as u16);
            Ok(play.call(|tcp, now, sink| tcp.packet_too_big(now, &flow, sequence, mtu, sink)).to_string())
        }
        ["unreachable", kind, seq] => {
            let (flow, sequence) = (flow(play)?, play.number_of_ours(number(seq)?));
            let why = match kind {
                "network" => Undelivered::Network,
                "host" => Undelivered::Host,
                "hop_limit" => Undelivered::HopLimit,
                "protocol" => Undelivered::Protocol,
                "port" => Undelivered::Port,
                "prohibited" => Undelivered::Prohibited,
                _ => return Err(format!("no such reason: {kind}")),
            };
            Ok(play.call(|tcp, now, sink| tcp.unreachable(now, &flow, sequence, why, sink)).to_string())
        }
        _ => look(play, words),
    }
}

fn look(play: &mut Play, words: &[&str]) -> Result<String, String> {
    let id = play.id;
    match *words {
        ["state"] => {
            let state = play.tcp.facts(id.ok_or("no connection")?).map(|facts| format!("{:?}", facts.state));
            Ok(told(state))
        }
        ["error"] => {
            let error = play.tcp.take_error(id.ok_or("no connection")?);
            Ok(told(error.map(|error| error.map_or("none".into(), |error| format!("{error:?}")))))
        }
        ["ready"] => Ok(ready(play.tcp.readiness(id.ok_or("no connection")?))),
        ["fact", name] => {
            let facts = play.tcp.facts(id.ok_or("no connection")?).map_err(|error| format!("{error:?}"))?;
            fact(&facts, name)
        }
        ["counter", name] => {
            let counter = Counter::ALL.iter().find(|counter| counter.name() == name).ok_or("no such counter")?;
            Ok(play.tcp.counters().value(*counter).to_string())
        }
        ["connections"] => {
            let (all, waiting) = play.tcp.connections();
            Ok(format!("{all} {waiting}"))
        }
        _ => Err(format!("what is {words:?}?")),
    }
}

fn told(result: Result<String, Error>) -> String {
    result.unwrap_or_else(|error| format!("{error:?}"))
}

fn listen(play: &mut Play, backlog: usize) -> Result<String, String> {
    let options = play.tcp.config().options();
    Ok(told(play.tcp.listen(here(), backlog, options).map(|id| {
        play.listener = Some(id);
        "ok".into()
    })))
}

fn send(play: &mut Play, count: usize) -> Result<String, String> {
    let id = play.id.ok_or("no connection")?;
    let bytes: Vec<u8> = (play.sent..play.sent + count).map(byte).collect();
    let sent = play.call(|tcp, now, sink| tcp.send(now, id, &bytes, sink));
    play.sent += sent.unwrap_or(0);
    Ok(told(sent.map(|count| count.to_string())))
}

fn read(play: &mut Play, most: usize) -> Result<String, String> {
    let id = play.id.ok_or("no connection")?;
    let mut bytes = vec![0; most];
    match play.call(|tcp, now, sink| tcp.read(now, id, &mut bytes, sink)) {
        Err(error) => Ok(format!("{error:?}")),
        Ok(count) => {
            let start = play.read;
            if !bytes[..count].iter().enumerate().all(|(at, own)| *own == byte(start + at)) {
                return Err(format!("wrong bytes behind {start}"));
            }
            play.read += count;
            Ok(count.to_string())
        }
    }
}

fn flow(play: &Play) -> Result<Flow, String> {
    Flow::new(here(), there(play.port)).ok_or_else(|| "two families".to_owned())
}

fn option(play: &mut Play, words: &[&str]) -> Result<String, String> {
    let id = play.id.ok_or("no connection")?;
    let mut options: Options = play.tcp.options(id).map_err(|error| format!("{error:?}"))?;
    match *words {
        ["nodelay", on] => options.nodelay = on == "on",
        ["cork", on] => options.cork = on == "on",
        ["quickack", on] => options.quickack = on == "on",
        ["urgent_held", on] => options.urgent_held = on == "on",
        ["abort_on_close", on] => options.abort_on_close = on == "on",
        ["user_timeout", time] => options.user_timeout_ns = duration_ns(time)?,
        ["mss", bytes] => options.segment_bytes_max = number(bytes)? as u16,
        ["sndbuf", bytes] => options.send_buffer_bytes = number(bytes)?,
        ["rcvbuf", bytes] => options.receive_buffer_bytes = number(bytes)?,
        ["congestion", name] => options.congestion = Congestion::named(name).ok_or("no such control")?,
        ["keepalive", "off"] => options.keepalive = None,
        ["keepalive", idle, interval, probes] => {
            let (idle_ns, interval_ns) = (duration_ns(idle)?, duration_ns(interval)?);
            options.keepalive = Some(KeepAlive { idle_ns, interval_ns, probes_max: number(probes)? });
        }
        _ => return Err(format!("no option: {words:?}")),
    }
    Ok(told(play.call(|tcp, now, sink| tcp.set_options(now, id, options, sink)).map(|()| "ok".into())))
}

fn ready(ready: Readiness) -> String {
    let names = [
        (Readiness::READABLE, "readable"),
        (Readiness::WRITABLE, "writable"),
        (Readiness::PEER_CLOSED, "peer_closed"),
        (Readiness::URGENT, "urgent"),
        (Readiness::HANGUP, "hangup"),
        (Readiness::ERROR, "error"),
    ];
    names.iter().filter(|(bit, _)| ready.has(*bit)).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

fn fact(facts: &Facts, name: &str) -> Result<String, String> {
    Ok(match name {
        "cwnd" => facts.congestion_window.to_string(),
        "ssthresh" => facts.slow_start_threshold.to_string(),
        "in_flight" => facts.in_flight.to_string(),
        "lost" => facts.lost_segments.to_string(),
        "sacked" => facts.sacked_segments.to_string(),
        "unsent" => facts.unsent.to_string(),
        "unacknowledged" => facts.unacknowledged.to_string(),
        "readable" => facts.readable.to_string(),
        "out_of_order" => facts.out_of_order.to_string(),
        "send_window" => facts.send_window.to_string(),
        "receive_window" => facts.receive_window.to_string(),
        "segment" => facts.segment_bytes.to_string(),
        "mtu" => facts.path_mtu.to_string(),
        "rto_us" => (facts.rto_ns / 1000).to_string(),
        "rtt_us" => facts.rtt_ns.map_or("none".into(), |rtt_ns| (rtt_ns / 1000).to_string()),
        "recovering" => facts.is_recovering.to_string(),
        "sack" => facts.sack.to_string(),
        "timestamps" => facts.timestamps.to_string(),
        "shifts" => format!("{} {}", facts.window_shifts.0, facts.window_shifts.1),
        "retransmitted" => facts.retransmitted.to_string(),
        "timeouts" => facts.timeouts.to_string(),
        _ => return Err(format!("no such fact: {name}")),
    })
}

/// The settings that scripts begin with: Linux's, without what makes numbers hard to read.
pub fn settings() -> Config {
    Config { quickack: true, nodelay: true, congestion: Congestion::Reno, tail_probe: false, ..Config::default() }
}

//! Values of flags that clap does not know.

use sidestep_bench::fix;
use sidestep_bench::path::{PATHS, Path};
use sidestep_bench::ring::Load;
use sidestep_bench::scenario::Offered;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Default port of `sidestep bench serve`.
const PORT: u16 = 7411;
/// The most rates of one sweep.
const RATES_MAX: usize = 1000;

/// A time: with its unit, or a number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.trim().parse::<f64>().ok().filter(|_| !text.contains(['e', 'E', '+', '-']));
    match seconds.filter(|seconds| seconds.is_finite()) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} s is out of range")),
        None => with_unit(text),
    }
}

/// A time with its unit.
fn with_unit(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match text.trim().parse::<f64>() {
        Ok(number) if number.fract() == 0.0 => format!("it has no unit: write {number}us, {number}ms or {number}s"),
        _ => format!("{error}: write 5s, 200ms or 10us"),
    })
}

/// CPUs of the measuring end and of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    pub(crate) client: u32,
    pub(crate) peer: Option<u32>,
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse().map_err(|_| format!("{text:?} is not a CPU number"));
        match text.split_once(',') {
            None => Ok(Self { client: number(text)?, peer: None }),
            Some((client, peer)) => Ok(Self { client: number(client)?, peer: Some(number(peer)?) }),
        }
    }
}

/// The result files of one side of a comparison: `a.json`, or several with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunFiles(pub(crate) Vec<PathBuf>);

impl From<OsString> for RunFiles {
    fn from(text: OsString) -> Self {
        // A file whose name has a comma in it is that file.
        if std::path::Path::new(&text).exists() {
            return Self(vec![text.into()]);
        }
        let pieces = text.as_bytes().split(|byte| *byte == b',');
        Self(pieces.map(|piece| OsStr::from_bytes(piece).into()).collect())
    }
}

/// Paths by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathList(pub(crate) Vec<&'static Path>);

impl FromStr for PathList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(PATHS.iter().collect()));
        }
        let named = |name: &str| Path::named(name.trim()).map_err(|problem| problem.to_string());
        text.split(',').map(named).collect::<Result<_, _>>().map(Self)
    }
}

/// Paces of round trips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadList(pub(crate) Vec<Load>);

impl FromStr for LoadList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let load = |one: &str| match one.trim() {
            "hot" => Ok(Load::ClosedLoop),
            // A pace is in microseconds as a rule: a bare number would be taken for them.
            time => with_unit(time)
                .map(Load::Paced)
                .map_err(|error| format!("{time:?} is neither `hot` nor a time like 1us: {error}")),
        };
        text.split(',').map(load).collect::<Result<_, _>>().map(Self)
    }
}

/// Paces of orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixLoadList(pub(crate) Vec<fix::Load>);

impl FromStr for FixLoadList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let load = |load: Load| match load {
            Load::ClosedLoop => Ok(fix::Load::ClosedLoop),
            Load::Paced(interval) => Ok(fix::Load::Paced(interval)),
            Load::Stream | Load::Events(_) => Err("orders cannot stream".into()),
        };
        match text.parse::<LoadList>()?.0 {
            loads if loads.is_empty() => Err("give `hot`, or times like 100us".into()),
            loads => loads.into_iter().map(load).collect::<Result<_, _>>().map(Self),
        }
    }
}

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named<T> {
    pub(crate) name: String,
    pub(crate) value: T,
}

impl<T: FromStr<Err: std::fmt::Display>> FromStr for Named<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                let value = value.parse().map_err(|error: T::Err| error.to_string())?;
                Ok(Self { name: name.into(), value })
            }
            _ => Err(format!("{text:?} is not of the form NAME=...")),
        }
    }
}

/// Rates, ascending.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RateList(pub(crate) Vec<f64>);

impl FromStr for RateList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rates = match text.split(':').collect::<Vec<_>>()[..] {
            [from, to, step] => range(rate(from)?, rate(to)?, rate(step)?)?,
            [list] => list.split(',').map(rate).collect::<Result<_, _>>()?,
            _ => return Err("give a list like 10k,50k,1M or FROM:TO:STEP".into()),
        };
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        Ok(Self(rates))
    }
}

/// Rates of an open loop: a list, or a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadRates(pub(crate) Offered);

impl FromStr for LoadRates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self(Offered::Auto)),
            _ => text
                .parse()
                .map(|RateList(rates)| Self(Offered::Listed(rates)))
                .map_err(|why| format!("{why}, or `auto`")),
        }
    }
}

fn range(from: f64, to: f64, step: f64) -> Result<Vec<f64>, String> {
    let count = (to - from) / step;
    if !(step > 0.0 && (0.0..RATES_MAX as f64).contains(&count)) {
        return Err(format!("a range has to rise, in at most {RATES_MAX} steps"));
    }
    Ok((0..=count as usize).map(|index| from + step * index as f64).collect())
}

/// A number with `k` or `M`.
fn rate(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    let value: f64 = digits.parse().map_err(|_| format!("{text:?} is not a rate (a number, or one with k or M)"))?;
    if value.is_finite() { Ok(value * factor) } else { Err(format!("{text:?} is not a rate")) }
}

/// A whole number, at least 1, which may be written with `k` or `M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = rate(text)?;
        if value >= 1.0 && value.fract() == 0.0 {
            Ok(Self(value as u64))
        } else {
            Err(format!("{text:?} is not a whole number"))
        }
    }
}

/// A peer on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target(pub(crate) SocketAddr);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare_ipv6 = text.matches(':').count() > 1 && !text.starts_with('[');
        let found = if bare_ipv6 || !has_port(text) {
            (text.trim_matches(['[', ']']), PORT).to_socket_addrs()
        } else {
            text.to_socket_addrs()
        };
        let none = || format!("{text:?} has no address");
        found.map_err(|error| format!("cannot find {text:?}: {error}"))?.next().map(Self).ok_or_else(none)
    }
}

/// An address of this machine, with the usual port if none is named.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_matches(['[', ']']).parse().map(|address: IpAddr| SocketAddr::new(address, PORT));
    bare.or_else(|_| text.parse())
        .map_err(|_| format!("{text:?} is not an address: write 192.0.2.2 or 192.0.2.2:{PORT}"))
}

fn has_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_unit_is_in_seconds() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("0.25"), Ok(Duration::from_millis(250)));
        assert!(duration("soon").is_err_and(|why| why.contains("200ms")));
        for bad in ["", "nan", "inf", "1e400", "-5", "99999999999999999999"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pace_needs_its_unit_and_the_error_has_it() {
        assert!("5".parse::<LoadList>().is_err_and(|why| why.contains("5us, 5ms or 5s")));
    }

    #[test]
    fn cpus() {
        assert_eq!("3".parse(), Ok(Cpus { client: 3, peer: None }));
        assert_eq!("3,5".parse(), Ok(Cpus { client: 3, peer: Some(5) }));
        for bad in ["", "a", "1,", "-1", "1,2,3", "4294967296"] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad}");
        }
    }

    #[test]
    fn files_of_runs() {
        let files = |text: &str| RunFiles::from(OsString::from(text)).0;
        assert_eq!(files("a.json"), [PathBuf::from("a.json")]);
        assert_eq!(files("a.json,b.json"), ["a.json", "b.json"].map(PathBuf::from));
        let one = std::env::temp_dir().join(format!("sidestep-{},comma", std::process::id()));
        std::fs::write(&one, "").expect("written");
        assert_eq!(RunFiles::from(one.clone().into_os_string()), RunFiles(vec![one.clone()]));
        std::fs::remove_file(&one).expect("it is there");
    }

    #[test]
    fn an_address_to_listen_on_has_the_usual_port() {
        let of = |text| listen_address(text).map(|address| address.to_string());
        assert_eq!(of("192.0.2.2"), Ok("192.0.2.2:7411".into()));
        assert_eq!(of("192.0.2.2:9"), Ok("192.0.2.2:9".into()));
        assert_eq!((of("::1"), of("[::1]:9")), (Ok("[::1]:7411".into()), Ok("[::1]:9".into())));
        assert!(of("nowhere").is_err_and(|why| why.contains("192.0.2.2:7411")));
    }

    #[test]
    fn paths() {
        assert_eq!("all".parse::<PathList>().expect("all are known").0.len(), PATHS.len());
        assert_eq!("uds, floor".parse::<PathList>().expect("both are known").0[1].name, "floor");
        assert!("kernel-spin,nonsense".parse::<PathList>().expect_err("unknown").contains("nonsense"));
    }

    #[test]
    fn loads() {
        let us = Duration::from_micros;
        assert_eq!("hot, 1us".parse(), Ok(LoadList(vec![Load::ClosedLoop, Load::Paced(us(1))])));
        assert_eq!("none".parse(), Ok(LoadList(Vec::new())));
        for bad in ["", "1", "hot,none", "-1us", "hot,,1ms"] {
            assert!(bad.parse::<LoadList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!("1M,10k,500".parse(), Ok(RateList(vec![500.0, 10e3, 1e6])));
        assert_eq!("50k:200k:50k".parse(), Ok(RateList(vec![50e3, 100e3, 150e3, 200e3])));
        for bad in ["", "k", "1x", "1:2", "5:1:1", "1:2:0", "1:1e9:1", "nan", "inf", "1e400", "é", "1é"] {
            assert!(bad.parse::<RateList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_of_an_open_loop() {
        assert_eq!("auto".parse(), Ok(LoadRates(Offered::Auto)));
        assert_eq!("2k,1k".parse(), Ok(LoadRates(Offered::Listed(vec![1e3, 2e3]))));
        assert!("fast".parse::<LoadRates>().is_err_and(|why| why.contains("or `auto`")));
    }

    #[test]
    fn targets() {
        let port = |text: &str| text.parse::<Target>().map(|target| target.0.to_string());
        assert_eq!(port("192.0.2.1"), Ok("192.0.2.1:7411".into()));
        assert_eq!(port("192.0.2.1:99"), Ok("192.0.2.1:99".into()));
        assert_eq!(port("2001:db8::1"), Ok("[2001:db8::1]:7411".into()));
        assert_eq!(port("[2001:db8::1]:99"), Ok("[2001:db8::1]:99".into()));
        for bad in ["", ":", "192.0.2.1:99999", "a b"] {
            assert!(port(bad).is_err(), "{bad}");
        }
    }
}

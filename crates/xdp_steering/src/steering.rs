//! The program on an interface: attach, pin, adopt, remove.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, ProgramHandle, Xdp, XdpFlags};
use sidestep_sys::bpf::XdpMode;
use sidestep_sys::xdp::device;
use sidestep_sys::{Problem, bpf, interface};

use crate::bpffs::is_bpffs;
use crate::layout::{MAGIC, VERSION, config, put, take};
use crate::maps::{Maps, NAMES};
use crate::program::{self, Build, Loaded};
use crate::tables::Tables;

/// The largest MTU for which a frame fits a page of 4 KiB, beside 256 bytes before it, 320 after it (`struct
/// skb_shared_info`) and an Ethernet header with two tags. Drivers allow somewhat less.
const MTU_OF_A_PAGE: u32 = 4096 - 256 - 320 - 22;

/// The pin of the link, beside those of the maps.
const LINK: &str = "link";

/// The place in the receive path where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver; falls back to generic mode, with the reason, if the driver cannot.
    Native,
    /// In the kernel's generic path, after it has built an skb.
    Generic,
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// The options of an attachment, with the directory of its pins.
#[derive(Clone, Debug)]
pub struct Attach {
    /// The interface, in the namespace of the calling thread.
    pub ifindex: u32,
    /// The mode wanted.
    pub mode: AttachMode,
    /// The directory of the pins: one per interface, on a BPF file system (see [`crate::mount`]), for nothing else. It
    /// is created if missing.
    pub directory: PathBuf,
}

/// The facts of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The interface's index.
    pub ifindex: u32,
    /// Its name at the time of attachment or adoption.
    pub interface: String,
    /// The mode it runs in.
    pub mode: AttachMode,
    /// The reason why it does not run in the mode wanted; known only to the process that attached it.
    pub downgrade: Option<String>,
    /// The kernel's id of the program, as shown by bpftool.
    pub program_id: u32,
    /// The kernel's id of the link.
    pub(crate) link_id: u32,
    /// 1 after attachment, one more for every adoption by a control plane.
    pub generation: u64,
}

/// The program on one interface. Dropping this does not detach: link and maps are pinned. [`Steering::remove`]
/// detaches.
#[derive(Debug)]
pub struct Steering {
    tables: Tables,
    link: Link,
    directory: PathBuf,
    facts: Facts,
}

impl Steering {
    /// Attaches the program by a BPF link and pins link and maps. Refuses if another program is attached, with its
    /// name.
    pub fn attach(options: &Attach) -> Result<Self, Problem> {
        Self::attach_program(options, &program::load()?)
    }

    fn attach_program(options: &Attach, program: &Loaded) -> Result<Self, Problem> {
        let name = interface_name(options.ifindex)?;
        let mac = interface_mac(&name)?;
        let tables = Tables { maps: Maps::of_object(&program.object)? };
        refuse_other(&tables, options.ifindex, &name)?;
        prepare(&options.directory)?;
        tables.initialise(options.ifindex, mac)?;
        let attached =
            tables.maps.pin(&options.directory).and_then(|()| attach_and_pin(options, &name, program, &tables));
        let downgrade = attached.inspect_err(|_| {
            // Remaining files are removed by the next attempt.
            let _ = unpin(&options.directory);
        })?;
        let mut steering = Self::open(tables, &options.directory, options.ifindex, name)?;
        steering.facts.downgrade = downgrade;
        Ok(steering)
    }

    /// Takes over what an earlier process has attached and pinned. Refuses another layout, another interface, and an
    /// interface that is gone, without changing anything. Completes interrupted removals of stacks.
    pub fn adopt(directory: &Path, ifindex: u32) -> Result<Self, Problem> {
        let name = interface_name(ifindex)?;
        let mac = interface_mac(&name)?;
        let tables = Tables { maps: Maps::of_pins(directory)? };
        let settings = tables.read_config()?;
        check_settings(directory, &settings, ifindex, &name)?;
        let mut steering = Self::open(tables, directory, ifindex, name)?;
        let generation = u64::from_ne_bytes(take(&settings, config::GENERATION)).wrapping_add(1);
        steering.tables.change_config(|bytes| {
            put(bytes, config::GENERATION, &generation.to_ne_bytes());
            put(bytes, config::MAC, &mac);
        })?;
        steering.facts.generation = generation;
        steering.tables.sweep_dead()?;
        Ok(steering)
    }

    /// Detaches what is pinned in `directory`, even if another process holds it, and removes the pins and the
    /// directory; `false` if there is nothing. The interface need not exist any more.
    pub fn remove(directory: &Path) -> Result<bool, Problem> {
        if !directory.exists() || !is_bpffs(directory) {
            return Ok(false);
        }
        let link = directory.join(LINK);
        if link.exists() {
            let detached = Link::open(&link).and_then(|link| link.detach());
            detached.map_err(|error| {
                Problem::failed(format!("cannot detach what is pinned at {}", link.display()), error)
                    .next("run as root: it needs CAP_BPF and CAP_NET_ADMIN")
            })?;
        }
        unpin(directory)?;
        fs::remove_dir(directory).map_err(|error| {
            Problem::failed(format!("cannot remove {}", directory.display()), error)
                .next("look what else is in it; only what sidestep pinned was removed")
        })?;
        Ok(true)
    }

    /// Detaches and removes everything in the directory, also pins of another release under its own names.
    pub fn sweep(directory: &Path) -> Result<bool, Problem> {
        if !directory.exists() || !is_bpffs(directory) {
            return Ok(false);
        }
        for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
            let is_ours = entry.file_name().to_str().is_some_and(|name| name == LINK || NAMES.contains(&name));
            if !is_ours && let Err(error) = fs::remove_file(entry.path()) {
                return Err(Problem::failed(format!("cannot remove the pin {}", entry.path().display()), error)
                    .next("remove it by hand"));
            }
        }
        Self::remove(directory)
    }

    /// The facts of the attachment.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Replaces an adopted program by this build's, atomically and with the same tables: every frame meets a program.
    /// `false` if it is the same one already.
    pub fn update_program(&mut self) -> Result<bool, Problem> {
        let what = format!("cannot renew the program on {}", self.facts.interface);
        let problem =
            |error: libbpf_rs::Error| Problem::failed(what.clone(), error).next("the old program stays attached");
        let Loaded { object, .. } = program::load_onto(&self.tables.maps)?;
        let new = object.progs_mut().find(|program| program.name() == program::NAME);
        let new = new.ok_or_else(|| Problem::failed(what.clone(), "the compiled program is missing"))?;
        let handle = ProgramHandle::try_from(&new).map_err(problem)?;
        let old = ProgramHandle::from_prog_id(self.facts.program_id).map_err(problem)?;
        if handle.tag() == old.tag() {
            return Ok(false);
        }
        self.link.update_prog(&new).map_err(problem)?;
        self.facts.program_id = handle.id();
        Ok(true)
    }

    /// The directory of the pins.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Entries, stacks, counters, settings.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns whether the program is still on the interface: `false` if the interface, or its namespace, has gone, or
    /// if the program was detached.
    pub fn is_attached(&self) -> Result<bool, Problem> {
        Ok(link_info(&self.link, &self.directory)?.ifindex == self.facts.ifindex)
    }

    fn open(tables: Tables, directory: &Path, ifindex: u32, name: String) -> Result<Self, Problem> {
        let link = Link::open(directory.join(LINK)).map_err(|error| {
            Problem::failed(format!("cannot open the link pinned in {}", directory.display()), error)
                .next("remove what is pinned (sidestep control --cleanup) and attach anew")
        })?;
        let info = link_info(&link, directory)?;
        if info.ifindex == 0 {
            return Err(foreign(directory, "the interface it was attached to is gone, or the program was detached"));
        }
        if info.ifindex != ifindex {
            return Err(foreign(
                directory,
                &format!("it is attached to interface {}, not to {name} ({ifindex})", info.ifindex),
            ));
        }
        let settings = tables.read_config()?;
        let generic = take::<1>(&settings, config::GENERIC) != [0];
        let facts = Facts {
            ifindex,
            interface: name,
            mode: if generic { AttachMode::Generic } else { AttachMode::Native },
            downgrade: None,
            program_id: info.program_id,
            link_id: info.id,
            generation: u64::from_ne_bytes(take(&settings, config::GENERATION)),
        };
        Ok(Self { tables, link, directory: directory.to_owned(), facts })
    }
}

/// The kernel's facts of a link; interface 0 if it is detached.
struct LinkState {
    id: u32,
    program_id: u32,
    ifindex: u32,
}

fn link_info(link: &Link, directory: &Path) -> Result<LinkState, Problem> {
    let info = link.info().map_err(|error| {
        Problem::failed(format!("cannot ask about the link pinned in {}", directory.display()), error)
    })?;
    let LinkTypeInfo::Xdp(xdp) = info.info else {
        return Err(foreign(directory, "its link is not an XDP link"));
    };
    Ok(LinkState { id: info.id, program_id: info.prog_id, ifindex: xdp.ifindex })
}

fn interface_name(ifindex: u32) -> Result<String, Problem> {
    interface::name_of_index(ifindex).map_err(|error| {
        Problem::failed(format!("cannot steer interface {ifindex}"), error)
            .next("list the interfaces of this namespace with: ip link")
    })
}

fn interface_mac(name: &str) -> Result<[u8; 6], Problem> {
    interface::ethernet_address(name).map_err(|error| {
        Problem::failed(format!("cannot read the Ethernet address of {name}"), error)
            .next("choose an Ethernet interface")
    })
}

/// Refuses an interface with another program. A second one would need a dispatcher; replacing the first would break its
/// function.
fn refuse_other(tables: &Tables, ifindex: u32, name: &str) -> Result<(), Problem> {
    let Some(id) = attached_program(tables, ifindex)? else { return Ok(()) };
    Err(occupied(name, id))
}

fn attached_program(tables: &Tables, ifindex: u32) -> Result<Option<u32>, Problem> {
    // The query takes no descriptor, but its type requires one.
    let query = Xdp::new(tables.maps.config.as_fd()).query(ifindex.cast_signed(), XdpFlags::NONE);
    let found =
        query.map_err(|error| Problem::failed(format!("cannot ask what is attached to interface {ifindex}"), error))?;
    let ids = [found.prog_id, found.drv_prog_id, found.skb_prog_id, found.hw_prog_id];
    Ok(ids.into_iter().find(|id| *id != 0))
}

fn occupied(name: &str, id: u32) -> Problem {
    let program = ProgramHandle::from_prog_id(id)
        .map_or_else(|_| String::new(), |program| program.name().to_string_lossy().into_owned());
    let next = if program == program::NAME {
        "another control plane serves it, or left it behind: end that one, or run sidestep control --cleanup".to_owned()
    } else {
        format!(
            "detach it by the means of its owner, or with: ip link set dev {name} xdp off; sidestep does not replace it"
        )
    };
    Problem::failed(format!("cannot attach to {name}"), format!("the XDP program {program} (id {id}) is attached"))
        .next(next)
}

/// Makes the directory; removes what a crash before the link was pinned has left in it.
fn prepare(directory: &Path) -> Result<(), Problem> {
    let problem = |why: &dyn fmt::Display| Problem::failed(format!("cannot pin in {}", directory.display()), why);
    let is_new = !directory.exists();
    if is_new {
        DirBuilder::new().mode(0o700).create(directory).map_err(|error| {
            problem(&error).next("mount a BPF file system above it: sidestep control does that by itself")
        })?;
    }
    if !is_bpffs(directory) {
        if is_new {
            // An empty directory that was just made is removed again.
            let _ = fs::remove_dir(directory);
        }
        return Err(problem(&"it is not on a BPF file system").next("mount one: mount -t bpf bpf DIRECTORY"));
    }
    if directory.join(LINK).exists() {
        return Err(
            problem(&"something is pinned there already").next("adopt it, or remove it: sidestep control --cleanup")
        );
    }
    unpin(directory)
}

/// Removes our pins, the link's first.
fn unpin(directory: &Path) -> Result<(), Problem> {
    for name in [LINK].into_iter().chain(NAMES) {
        let path = directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(
                    Problem::failed(format!("cannot remove the pin {}", path.display()), error).next("run as root")
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// Attaches and pins; returns the reason if it is not the mode wanted.
fn attach_and_pin(options: &Attach, name: &str, program: &Loaded, tables: &Tables) -> Result<Option<String>, Problem> {
    let (link, mode, downgrade) = attach_link(options, name, program, tables)?;
    tables.change_config(|bytes| put(bytes, config::GENERIC, &[u8::from(mode == XdpMode::Generic)]))?;
    let path = options.directory.join(LINK);
    bpf::pin(link.as_fd(), &path).map_err(|error| Problem::failed(format!("cannot pin {}", path.display()), error))?;
    Ok(downgrade)
}

fn attach_link(
    options: &Attach,
    name: &str,
    Loaded { object, build }: &Loaded,
    tables: &Tables,
) -> Result<(OwnedFd, XdpMode, Option<String>), Problem> {
    let program = object.progs().find(|program| program.name() == program::NAME);
    let program = program.ok_or_else(|| Problem::failed("cannot attach", "the compiled program is missing"))?;
    let attach = |mode| bpf::link_xdp(program.as_fd(), options.ifindex, mode);
    let problem = |error: io::Error| match attached_program(tables, options.ifindex) {
        Ok(Some(id)) => occupied(name, id),
        _ => Problem::failed(format!("cannot attach to {name}"), error)
            .next("run as root (it needs CAP_NET_ADMIN), and look for the reason in the kernel's log: dmesg"),
    };
    let refusal = match options.mode {
        AttachMode::Generic => None,
        AttachMode::Native => match attach(XdpMode::Native) {
            Ok(link) => return Ok((link, XdpMode::Native, None)),
            // Another process was faster: generic mode would be refused, too.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Err(problem(error)),
            Err(error) => Some(not_native(name, *build, &error)),
        },
    };
    let link = attach(XdpMode::Generic).map_err(problem)?;
    Ok((link, XdpMode::Generic, refusal))
}

/// The reason for generic mode, with the remedy if the MTU is the cause.
fn not_native(name: &str, build: Build, error: &io::Error) -> String {
    let reason = format!("generic mode, because the driver of {name} refuses native XDP: {error}");
    let mtu = device(name).map_or(0, |device| device.mtu);
    if mtu <= MTU_OF_A_PAGE {
        return reason;
    }
    let why = match build {
        Build::Frags => "many drivers run XDP only where a frame fits a page",
        Build::OneBuffer => "this kernel runs XDP only where a frame fits a page (longer ones: Linux 5.18)",
    };
    format!("{reason}; its MTU is {mtu}, and {why}: ip link set {name} mtu 1500, then attach anew")
}

fn check_settings(directory: &Path, settings: &[u8], ifindex: u32, name: &str) -> Result<(), Problem> {
    let number = |offset| u32::from_ne_bytes(take(settings, offset));
    if number(config::MAGIC) != MAGIC {
        return Err(foreign(directory, "it was not pinned by sidestep"));
    }
    if number(config::LAYOUT) != VERSION {
        let found = number(config::LAYOUT);
        return Err(foreign(directory, &format!("it has layout {found}, this version understands {VERSION}")));
    }
    if number(config::IFINDEX) != ifindex {
        let found = number(config::IFINDEX);
        return Err(foreign(directory, &format!("it was attached to interface {found}, not to {name} ({ifindex})")));
    }
    Ok(())
}

fn foreign(directory: &Path, why: &str) -> Problem {
    Problem::failed(format!("cannot adopt what is pinned in {}", directory.display()), why)
        .next("remove it (sidestep control --cleanup) and attach anew")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_lab::{Lab, Options, Side};

    /// The program for older kernels, which this kernel accepts, too.
    #[test]
    fn at_a_jumbo_mtu_an_older_kernel_says_why_it_is_generic_mode_and_what_helps() {
        if !sidestep_sys::process::is_root() {
            return eprintln!("skipped: needs root");
        }
        let lab = Lab::up(&Options::default()).unwrap();
        for side in [Side::A, Side::B] {
            let mut ip = lab.host(side).command("ip").unwrap();
            assert!(ip.args(["link", "set", "lab0", "mtu", "9000"]).status().unwrap().success());
        }
        let pins = std::env::temp_dir().join(format!("sidestep-steering-{}", std::process::id()));
        let work = || {
            crate::mount(&pins)?;
            let (ifindex, directory) = (device("lab0")?.index, pins.join("lab0"));
            let attach = Attach { ifindex, mode: AttachMode::Native, directory: directory.clone() };
            let steering = Steering::attach_program(&attach, &program::load_build(Build::OneBuffer)?)?;
            assert_eq!(steering.facts().mode, AttachMode::Generic);
            let reason = steering.facts().downgrade.clone().unwrap();
            for part in ["its MTU is 9000", "Linux 5.18", "ip link set lab0 mtu 1500"] {
                assert!(reason.contains(part), "{reason}");
            }
            assert!(Steering::remove(&directory)?);
            crate::unmount(&pins).map(drop)
        };
        lab.host(Side::A).within(work).unwrap();
    }
}

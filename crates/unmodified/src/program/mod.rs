//! The recognition of programs: which file runs in the end, and why the library cannot serve it, if so.
//!
//! `lookup` finds the file as execvp(3) does and follows scripts to their interpreters; `elf` reads binaries; `privilege` tells
//! which ones the kernel starts with more rights than the caller's, so that the loader ignores LD_PRELOAD.

mod elf;
mod lookup;
mod privilege;

pub use elf::architecture;
pub use lookup::NotFound;

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file that was named.
    pub path: PathBuf,
    /// The binary that runs in the end: of a script its interpreter.
    pub binary: PathBuf,
    /// The reason why its sockets stay with the kernel, if they do.
    pub obstacle: Option<Obstacle>,
}

impl Program {
    /// Finds a program by name or path, as execvp(3) does with this value of PATH, and recognises it.
    pub fn find(name: &OsStr, search: Option<&OsStr>) -> Result<Self, NotFound> {
        let path = lookup::find(name, search)?;
        match lookup::binary(&path, search) {
            Ok(binary) => Ok(Self { obstacle: obstacle(&binary), path, binary }),
            Err(reason) => Ok(Self { binary: path.clone(), path, obstacle: Some(Obstacle::Unknown(reason)) }),
        }
    }
}

fn obstacle(binary: &std::path::Path) -> Option<Obstacle> {
    privilege::more_than_ours(binary).or_else(|| elf::obstacle(binary))
}

/// The reason why the library cannot serve a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is linked statically: no library can be loaded into it.
    Static,
    /// It is written in Go, which makes its system calls itself.
    Go,
    /// It is for another architecture.
    Architecture(String),
    /// It is linked with musl's loader, and the library with glibc.
    Musl,
    /// The kernel starts it with more rights than the caller has.
    Privileged(&'static str),
    /// It is linked with liburing, whose requests cannot be intercepted.
    IoUring,
    /// It cannot be read, or is none that is known.
    Unknown(String),
}

impl Obstacle {
    /// Returns whether LD_PRELOAD may be set nevertheless, for the programs that this one starts.
    pub fn lets_children_load(&self) -> bool {
        matches!(self, Self::Static)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("it is linked statically, so that no library can be loaded into it"),
            Self::Go => f.write_str("it is written in Go, which makes its system calls without the C library"),
            Self::Architecture(other) => write!(f, "it is for {other}, and the library for {}", architecture()),
            Self::Musl => f.write_str("it is linked with musl, and the library with glibc"),
            Self::Privileged(how) => write!(f, "{how}, and the loader does not load other libraries into such programs"),
            Self::IoUring => f.write_str(
                "it is linked with liburing, and requests of io_uring cannot be intercepted; if it uses io_uring for files \
                 alone: --io-uring ignore",
            ),
            Self::Unknown(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, one after the other.
    fn after(obstacle: Option<&Obstacle>) -> Option<Obstacle> {
        Some(match obstacle {
            None => Obstacle::Static,
            Some(Obstacle::Static) => Obstacle::Go,
            Some(Obstacle::Go) => Obstacle::Architecture("x86".into()),
            Some(Obstacle::Architecture(_)) => Obstacle::Musl,
            Some(Obstacle::Musl) => Obstacle::Privileged("it is set-user-ID"),
            Some(Obstacle::Privileged(_)) => Obstacle::IoUring,
            Some(Obstacle::IoUring) => Obstacle::Unknown("cannot be read as a binary".into()),
            Some(Obstacle::Unknown(_)) => return None,
        })
    }

    #[test]
    fn the_book_has_every_obstacle() {
        let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/past-the-kernel/troubleshooting.md");
        let chapter = std::fs::read_to_string(chapter).expect("the chapter is there");
        let (_, programs) = chapter.split_once("\n## Programs\n").unwrap();
        let (programs, _) = programs.split_once("\n## ").unwrap();
        for obstacle in std::iter::successors(after(None), |last| after(Some(last))) {
            let text = obstacle.to_string();
            // What the book has once is the same for all architectures, and for all privileges.
            let same = text.split(" for x86_64").next().unwrap().split(" for aarch64").next().unwrap();
            for part in same.split("it is set-user-ID, ") {
                assert!(programs.contains(part), "troubleshooting.md lacks: {part}");
            }
        }
        for how in privilege::HOW {
            assert!(programs.contains(how), "troubleshooting.md lacks: {how}");
        }
    }
}

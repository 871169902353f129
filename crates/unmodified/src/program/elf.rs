//! What an ELF file tells of itself.

use super::Obstacle;
use object::elf::{
    DT_NEEDED, DT_STRSZ, DT_STRTAB, Dyn64, DynamicTag, EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_S390,
    EM_X86_64, FileHeader64, Machine, ProgramHeader64,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// The longest table of names of libraries that is read, bytes.
const NAMES_BYTES_MAX: u64 = 16 << 20;

/// Sections that Go's linker writes.
const GO_SECTIONS: [&[u8]; 3] = [b".go.buildinfo", b".gopclntab", b".note.go.buildid"];

const MACHINES: [(&str, Machine); 7] = [
    ("x86_64", EM_X86_64),
    ("aarch64", EM_AARCH64),
    ("x86", EM_386),
    ("arm", EM_ARM),
    ("riscv64", EM_RISCV),
    ("powerpc64", EM_PPC64),
    ("s390x", EM_S390),
];

/// Returns the architecture of the library.
pub fn architecture() -> &'static str {
    std::env::consts::ARCH
}

/// Returns why the library cannot serve a binary; `None` if it can.
pub(super) fn obstacle(path: &Path) -> Option<Obstacle> {
    match facts(path) {
        Ok(Facts { machine, .. }) if machine != architecture() => Some(Obstacle::Architecture(machine)),
        Ok(Facts { is_go: true, .. }) => Some(Obstacle::Go),
        Ok(Facts { loader: None, .. }) => Some(Obstacle::Static),
        Ok(Facts { loader: Some(loader), .. }) if loader.contains("ld-musl") => Some(Obstacle::Musl),
        Ok(Facts { libraries, .. }) if libraries.iter().any(|name| name.starts_with("liburing")) => {
            Some(Obstacle::IoUring)
        }
        Ok(_) => None,
        Err(why) => Some(Obstacle::Unknown(format!("{} cannot be read as a binary: {why}", path.display()))),
    }
}

#[derive(Debug)]
struct Facts {
    machine: String,
    is_go: bool,
    /// The program interpreter: none if it is linked statically.
    loader: Option<String>,
    /// The libraries that it names itself.
    libraries: Vec<String>,
}

fn facts(path: &Path) -> Result<Facts, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let data = &ReadCache::new(file);
    let kind = FileKind::parse(data).map_err(|error| error.to_string())?;
    match kind {
        FileKind::Elf64 => facts_of(data).map_err(|error| error.to_string()),
        // Of the architectures that the library is built for, none has 32 bits.
        FileKind::Elf32 => Ok(Facts { machine: "32 bits".into(), is_go: false, loader: None, libraries: Vec::new() }),
        other => Err(format!("it is {other:?}")),
    }
}

fn facts_of<'data, R: ReadRef<'data>>(data: R) -> Result<Facts, object::Error> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let machine = header.e_machine(endian);
    let known = MACHINES.iter().find(|(_, number)| *number == machine);
    let segments = header.program_headers(endian, data)?;
    let mut loader = None;
    for segment in segments {
        if let Some(path) = segment.interpreter(endian, data)? {
            loader = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    // A file may have no sections: then nothing tells of Go.
    let sections = header.sections(endian, data).ok();
    let has = |name: &[u8]| sections.as_ref().is_some_and(|all| all.section_by_name(endian, name).is_some());
    Ok(Facts {
        machine: known.map_or_else(|| format!("machine {}", machine.0), |(name, _)| (*name).to_owned()),
        is_go: GO_SECTIONS.iter().any(|name| has(name)),
        loader,
        libraries: libraries(segments, endian, data)?,
    })
}

/// Returns the names in DT_NEEDED, found as the loader finds them: by segments, not by sections.
fn libraries<'data, R: ReadRef<'data>>(
    segments: &[ProgramHeader64<Endianness>],
    endian: Endianness,
    data: R,
) -> Result<Vec<String>, object::Error> {
    let mut dynamic: &[Dyn64<Endianness>] = &[];
    for segment in segments {
        dynamic = segment.dynamic(endian, data)?.unwrap_or(dynamic);
    }
    let value = |tag: DynamicTag| dynamic.iter().find(|entry| entry.tag(endian) == tag).map(|entry| entry.val(endian));
    let (Some(address), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else { return Ok(Vec::new()) };
    let size = size.min(NAMES_BYTES_MAX);
    let find = |segment: &ProgramHeader64<Endianness>| segment.data_range(endian, data, address, size).ok().flatten();
    let Some(names) = segments.iter().find_map(find) else { return Ok(Vec::new()) };
    let needed = dynamic.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    let name = |entry: &Dyn64<Endianness>| {
        let rest = names.get(usize::try_from(entry.val(endian)).ok()?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    Ok(needed.filter_map(name).collect())
}

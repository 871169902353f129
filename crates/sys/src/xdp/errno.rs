//! Error numbers by their names in manuals and kernel sources.

use std::io;

/// The name of an error number ("EBUSY"); "an unknown error" for one that AF_XDP and bpf(2) do not give.
pub fn name(error: &io::Error) -> &'static str {
    match error.raw_os_error().unwrap_or_default() {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ENXIO => "ENXIO",
        libc::E2BIG => "E2BIG",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::ENOSPC => "ENOSPC",
        libc::ERANGE => "ERANGE",
        libc::ENOSYS => "ENOSYS",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENOBUFS => "ENOBUFS",
        _ => "an unknown error",
    }
}

/// The name and the C library's text, for a reason.
pub(super) fn explain(error: &io::Error) -> String {
    format!("{}, {error}", name(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_by_its_name() {
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        assert_eq!(name(&busy), "EBUSY");
        assert!(explain(&busy).starts_with("EBUSY, "));
        assert_eq!(name(&io::Error::other("x")), "an unknown error");
    }
}

//! Descriptions of the arms, for the report.

use super::arms::Request;
use crate::path::Path;
use sidestep_report::schema::PathInfo;

/// One for each of `names`, which are those of rows.
pub(super) fn paths<'a>(request: &Request, names: impl Iterator<Item = &'a str>) -> Vec<PathInfo> {
    let targets = request.targets();
    let of_target = |name: &str| {
        let target = targets.iter().find(|target| target.name() == name)?;
        let (work, form, ends) = (target.work.name(), target.form.name(), ends(target.path));
        let description = format!("Tick to trade, {work}, with orders by {form}: {ends}.");
        Some(PathInfo { name: name.into(), description, ..target.path.info() })
    };
    let floor = |name: &str| Path::named(name).ok().map(Path::info);
    names.filter_map(|name| of_target(name).or_else(|| floor(name))).collect()
}

/// The two ends of a path: it is the trader's, and the exchange's where that can be.
fn ends(path: &Path) -> String {
    match path.name {
        "xdp" => "both ends past the kernel, groups and the order's TCP in one socket engine each".into(),
        "xdp-one-end" => {
            "the trader past the kernel, groups and the order's TCP in one socket engine; the exchange by kernel-spin"
                .into()
        }
        "ring" => {
            "the trader reads its feed from rings that the steering program fills, and orders by kernel-spin; the exchange by kernel-spin"
                .into()
        }
        "uring-spin" => "both ends by io_uring; orders of FIX, whose engine has none, by the kernel's calls".into(),
        "kernel-epoll" => {
            "the trader sleeps in epoll_wait(2) until a group has something; the exchange spins on its schedule".into()
        }
        name => format!("both ends by {name}"),
    }
}

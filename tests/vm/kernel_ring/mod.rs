//! The kernel module in `kernel/` on stock kernels: what it promises to readers, and what hostile ones try. The machines have
//! the kernel's own checks of memory on, and a test fails where the kernel complains.
//!
//! `SIDESTEP_VM_LONG=1` in the environment runs more rounds: 10^4 of unloading, 10^6 messages.

mod device;
mod hostile;
mod messages;
mod unload;

use hostile::{
    bad_pointers_and_lengths_harm_nobody, many_readers_and_forks_are_served, mappings_are_read_only,
    parameters_out_of_bounds_are_refused, unknown_calls_are_refused,
};
use messages::{
    a_reader_that_is_late_is_told_its_loss, datagrams_of_a_port_are_copied, datagrams_of_a_vlan_tell_it,
    every_message_arrives_in_order, sleepers_are_woken_for_later_messages, the_interval_is_set_by_those_who_may,
    words_in_messages_lead_no_reader_astray,
};
use sidestep_testkit::{vm, vm_tests};
use unload::{it_is_loaded_and_unloaded_beside_readers, it_stays_while_it_is_mapped};

static PLAN: vm::Plan = vm::Plan {
    modules: &["veth", "8021q"],
    own_modules: &["sidestep_ring"],
    arguments: "slub_debug=FZPU kfence.sample_interval=1 page_poison=1 init_on_free=1",
    ..vm::Plan::BARE
};

vm_tests!(PLAN:
    parameters_out_of_bounds_are_refused,
    mappings_are_read_only,
    bad_pointers_and_lengths_harm_nobody,
    unknown_calls_are_refused,
    the_interval_is_set_by_those_who_may,
    sleepers_are_woken_for_later_messages,
    a_reader_that_is_late_is_told_its_loss,
    datagrams_of_a_port_are_copied,
    datagrams_of_a_vlan_tell_it,
    words_in_messages_lead_no_reader_astray,
    many_readers_and_forks_are_served,
    it_stays_while_it_is_mapped,
    it_is_loaded_and_unloaded_beside_readers,
    every_message_arrives_in_order,
);

/// The number of rounds: the long one where it was asked for.
fn rounds(short: u64, long: u64) -> u64 {
    if std::env::var_os("SIDESTEP_VM_LONG").is_some() { long } else { short }
}

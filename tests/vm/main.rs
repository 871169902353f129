//! The product on stock kernels of Debian, in virtual machines: what it promises for "Linux" holds for those that people run,
//! not for the one at hand alone; and no other program there can be hurt by a changed setting. One machine per kernel does all
//! of it: booting one is what costs.

mod bypass;
mod causes;
mod hand_over;
mod kernel_ring;
mod rss;
mod stages;
#[path = "../support/mod.rs"]
mod support;
mod tune;
mod vlan;

use bypass::{
    control_comes_and_goes_and_leaves_nothing, datagrams_go_past_the_kernel, streams_come_by_any_of_several_queues,
    streams_go_past_the_kernel, what_this_kernel_lacks_is_told,
};
use causes::the_tail_is_joined_with_events_of_the_kernel;
use hand_over::{
    connections_of_others_become_the_kernels_in_every_state, connections_of_ours_become_the_kernels_in_every_state,
    the_clock_of_timestamps_goes_on_as_it_was,
};
use sidestep_testkit::{vm, vm_tests};
use stages::{an_emulated_device_stamps_what_it_sends, software_stages_of_a_round_trip_are_measured};
use tune::{
    a_host_in_a_file_is_the_host, apply_and_revert_leave_every_byte_as_it_was, check_looks_at_all_of_the_host,
    cpus_are_a_programs_alone_while_it_runs, daemons_are_judged_by_pauses_and_put_back,
    settings_of_a_device_are_read_and_set,
};
use vlan::{tags_that_the_device_takes_out_are_refused_by_name, traffic_of_a_vlan_goes_past_the_kernel};

static PLAN: vm::Plan = vm::Plan {
    modules: &["veth", "e1000e", "8021q"],
    programs: &[env!("CARGO_BIN_EXE_sidestep"), "kill", "sleep"],
    devices: &["e1000e"],
    ..vm::Plan::BARE
};

vm_tests!(PLAN:
    settings_of_a_device_are_read_and_set,
    check_looks_at_all_of_the_host,
    apply_and_revert_leave_every_byte_as_it_was,
    daemons_are_judged_by_pauses_and_put_back,
    a_host_in_a_file_is_the_host,
    cpus_are_a_programs_alone_while_it_runs,
    datagrams_go_past_the_kernel,
    streams_go_past_the_kernel,
    streams_come_by_any_of_several_queues,
    control_comes_and_goes_and_leaves_nothing,
    what_this_kernel_lacks_is_told,
    connections_of_ours_become_the_kernels_in_every_state,
    connections_of_others_become_the_kernels_in_every_state,
    the_clock_of_timestamps_goes_on_as_it_was,
    traffic_of_a_vlan_goes_past_the_kernel,
    tags_that_the_device_takes_out_are_refused_by_name,
    the_tail_is_joined_with_events_of_the_kernel,
    software_stages_of_a_round_trip_are_measured,
    an_emulated_device_stamps_what_it_sends,
);

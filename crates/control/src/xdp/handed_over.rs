//! Flows and ports of connections that the kernel has got.

use super::Xdp;
use super::entry::{flow_of, theirs};
use super::interface::Interface;
use sidestep_control_api::message::{Code, Entry, Refusal};
use sidestep_sys::Problem;

impl Xdp {
    pub(super) fn share_with_kernel(&self, stack: u32, flow: &Entry) -> Result<(), Refusal> {
        let (interface, placed) = self.placed(stack)?;
        let failed = |problem: Problem| Refusal::of(Code::Kernel, format!("cannot hand over {flow}"), &problem);
        let shared = flow_of(flow).map_or(Ok(()), |flow| interface.steering.tables().share(placed.id, flow));
        shared.map_err(failed)
    }

    pub(super) fn pass_flow(&self, stack: u32, flow: &Entry) -> Result<(), Refusal> {
        let (interface, _) = self.placed(stack)?;
        let failed = |problem: Problem| Refusal::of(Code::Kernel, format!("cannot hand over {flow}"), &problem);
        flow_of(flow).map_or(Ok(()), |flow| interface.steering.tables().pass(flow)).map_err(failed)
    }

    pub(super) fn unpass_flow(&self, interface: u32, flow: &Entry) -> Result<(), Problem> {
        let (Some(interface), Some(flow)) = (self.interfaces.get(&interface), flow_of(flow)) else { return Ok(()) };
        interface.steering.tables().unpass(flow).map(drop)
    }

    pub(super) fn passed_flows(&self) -> Vec<(u32, Entry)> {
        let of = |(index, interface): (&u32, &Interface)| {
            let flows = interface.steering.tables().passed().unwrap_or_default();
            let index = *index;
            flows.into_iter().filter_map(move |flow| Some((index, theirs(&flow.into())?)))
        };
        self.interfaces.iter().flat_map(of).collect()
    }

    pub(super) fn share(&self, stack: u32, port: u16) -> Result<(), Refusal> {
        let (interface, placed) = self.placed(stack)?;
        let shared = interface.steering.tables().share_port(placed.id, port);
        shared.map_err(|problem| Refusal::of(Code::Kernel, format!("cannot share port {port}"), &problem))
    }
}

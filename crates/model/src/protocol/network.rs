//! The network: a message that was sent may arrive at any time, any number of times, or never.

use super::Protocol;
use crate::world::World;
use crate::world::action::NetworkAction;
use crate::world::message::RequestInFlight;
use crate::world::store_command::StoreCommand;

impl Protocol {
    /// Sends a request of an AllocSvr. Unless the network is hostile, the call is one step: the
    /// stores apply the request and the AllocSvr receives the reply.
    pub(super) fn send_request(&self, world: &mut World, process: usize, command: StoreCommand) {
        let request = RequestInFlight {
            command,
            process: process as u8,
            cluster: world.processes[process].cluster,
        };
        if self.scenario.hostile_network {
            world.requests.insert(request);
        } else if let Some(reply) = self.deliver_request(world, request) {
            self.receive_reply(world, reply);
        }
    }

    /// Delivers a message.
    pub(super) fn apply_network_action(
        &self,
        world: &mut World,
        action: NetworkAction,
    ) -> Option<()> {
        match action {
            NetworkAction::DeliverRequest { request } => {
                let request = *world.requests.iter().nth(request)?;
                let reply = self.deliver_request(world, request);
                world.replies.extend(reply);
            }
            NetworkAction::DeliverReply { reply } => {
                let reply = *world.replies.iter().nth(reply)?;
                self.receive_reply(world, reply);
            }
        }
        Some(())
    }
}

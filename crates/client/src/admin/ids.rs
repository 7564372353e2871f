//! Calls of operators about families of ids, their workers, and store time.

use seqsvr_core::family::{
    Family, FamilyChange, FamilyLimits, FamilySpec, TickStart, validate_family,
};
use seqsvr_core::ids::{FamilyId, WorkerId};
use seqsvr_proto::v1::alter_family_request::SequenceStart;
use seqsvr_proto::v1::{self, Reason};

use super::Admin;
use crate::error::Error;

impl Admin {
    /// Creates a family of ids. A repeated call with the same settings returns the same family.
    pub async fn create_family(
        &self,
        spec: &FamilySpec,
        limits: FamilyLimits,
    ) -> Result<Family, Error> {
        validate_family(spec, &limits).map_err(Error::invalid)?;
        let wire = Family {
            id: FamilyId(0),
            spec: spec.clone(),
            limits,
            version: 0,
        };
        let request = v1::CreateFamilyRequest {
            family: Some(v1::Family::from(&wire)),
        };
        decode_family(&self.send_request(request).await?)
    }

    /// Changes limits of a family. Holders see them at their next renewal.
    pub async fn alter_family(&self, name: &str, change: FamilyChange) -> Result<Family, Error> {
        let sequence_start = change.sequence_start.map(|start| match start {
            TickStart::Zero => SequenceStart::Zero(true),
            TickStart::Random { below } => SequenceStart::RandomBelow(below),
            TickStart::Carry => SequenceStart::Carry(true),
        });
        let request = v1::AlterFamilyRequest {
            name: name.to_owned(),
            window_ms: change.window_ms,
            window_max_ms: change.window_max_ms,
            ahead_ms: change.ahead_ms,
            workers_per_holder: change.workers_per_holder,
            frozen: change.frozen,
            sequence_start,
        };
        decode_family(&self.send_request(request).await?)
    }

    /// Returns all families with their floors, and store time.
    pub async fn list_families(&self) -> Result<v1::ListFamiliesResponse, Error> {
        self.send_request(v1::ListFamiliesRequest {}).await
    }

    /// Makes every later grant of a family begin at this tick or above. Returns the floor, which
    /// was higher already if it is above `tick`. More than the family's `ahead` in front of store
    /// time needs `force`.
    pub async fn raise_family(&self, name: &str, tick: u64, force: bool) -> Result<u64, Error> {
        let request = v1::RaiseFamilyRequest {
            name: name.to_owned(),
            floor: tick,
            force,
        };
        Ok(self.send_request(request).await?.floor)
    }

    /// Returns up to 1,000 workers of a family from this number on, by number.
    pub async fn list_workers(
        &self,
        family: &str,
        first: WorkerId,
    ) -> Result<v1::ListWorkersResponse, Error> {
        let request = v1::ListWorkersRequest {
            family: family.to_owned(),
            first: first.0,
        };
        self.send_request(request).await
    }

    /// Takes a worker from its holder. Returns the Unix time in milliseconds up to which the
    /// holder may still make ids.
    pub async fn revoke_worker(&self, family: &str, worker: WorkerId) -> Result<u64, Error> {
        let request = v1::RevokeWorkerRequest {
            family: family.to_owned(),
            worker: worker.0,
            epoch: 0,
        };
        Ok(self.send_request(request).await?.until_ms)
    }

    /// Returns store time and the clocks that it follows.
    pub async fn clock_status(&self) -> Result<v1::ClockStatusResponse, Error> {
        self.send_request(v1::ClockStatusRequest {}).await
    }

    /// Makes store time follow the clocks of the stores, also if they are suspect.
    pub async fn accept_clock(&self) -> Result<v1::ClockStatusResponse, Error> {
        self.send_request(v1::AcceptClockRequest {}).await
    }

    /// Sets store time, also back. Without `force` it is rejected if a family would grant nothing
    /// until store time has passed it again.
    pub async fn set_clock(
        &self,
        unix_ms: u64,
        force: bool,
    ) -> Result<v1::ClockStatusResponse, Error> {
        self.send_request(v1::SetClockRequest { unix_ms, force })
            .await
    }
}

/// Reads a family of a reply.
fn decode_family(wire: &v1::Family) -> Result<Family, Error> {
    Family::try_from(wire).map_err(|e| {
        let text = format!("{e}; client and server versions are incompatible");
        Error::new(tonic::Code::Internal, Reason::Invalid, text)
    })
}

//! Pipes of one client, one for each address.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tonic::metadata::MetadataMap;

use crate::attempt::attempt_error::AttemptError;
use crate::pipe::connection::PipeConnection;
use crate::pipe::driver;
use crate::pipe::observer::PipeObserver;
use seqsvr_net::ChannelPool;

/// Pipes of one client, by address.
pub(crate) struct PipePool {
    channels: ChannelPool,
    /// Maximum items of a frame.
    frame_items_max: usize,
    pipes: RwLock<HashMap<String, Arc<PipeConnection>>>,
}

impl Drop for PipePool {
    fn drop(&mut self) {
        self.pipes.get_mut().values().for_each(|pipe| pipe.close());
    }
}

impl PipePool {
    /// Creates a pool without pipes. `frame_items_max` is the maximum of items of a frame.
    pub(crate) fn new(channels: ChannelPool, frame_items_max: usize) -> PipePool {
        PipePool {
            channels,
            frame_items_max,
            pipes: RwLock::default(),
        }
    }

    /// Returns the pipe to an address; opens one if there is none that accepts items. A new pipe
    /// reports to `observer`.
    pub(crate) fn get_or_open<O: PipeObserver>(
        &self,
        observer: &Arc<O>,
        address: &str,
    ) -> Result<Arc<PipeConnection>, AttemptError> {
        if let Some(pipe) = self.pipes.read().get(address).filter(|pipe| pipe.is_open()) {
            return Ok(pipe.clone());
        }
        let channel = self
            .channels
            .get(address)
            .map_err(|bad| AttemptError::unreachable(address, &bad.to_string()))?;
        let mut metadata = MetadataMap::new();
        let authorized = self.channels.authorize(address, &mut metadata);
        authorized.map_err(|why| AttemptError::unauthorized(address, &why))?;
        let mut pipes = self.pipes.write();
        if let Some(pipe) = pipes.get(address).filter(|pipe| pipe.is_open()) {
            return Ok(pipe.clone());
        }
        let pipe = Arc::new(PipeConnection::new(address, self.frame_items_max));
        let driven = driver::run_driver(pipe.clone(), channel, metadata, Arc::downgrade(observer));
        tokio::spawn(driven);
        pipes.insert(address.to_owned(), pipe.clone());
        Ok(pipe)
    }

    /// Closes the pipes to addresses that `keep` rejects, and discards the broken ones.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.pipes.write().retain(|address, pipe| {
            let keep = keep(address);
            if !keep {
                pipe.close();
            }
            keep && pipe.is_open()
        });
    }
}

//! The client of a command, which prints what it waits for.

use std::time::Duration;

use seqsvr_client::{Client, Options};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::{cli, log};

/// Time after which a waiting command prints what it waits for.
const PATIENCE: Duration = Duration::from_millis(700);

/// A client that prints on stderr what it waits for, until it is dropped.
pub(crate) struct Session {
    pub(crate) client: Client,
    teller: JoinHandle<()>,
}

impl Session {
    pub(crate) fn open(args: &cli::Server) -> anyhow::Result<Session> {
        let mut options = Options::new(args.addresses());
        options.deadline = args.timeout;
        let client = Client::new(options)?;
        let mut trouble = client.trouble();
        let teller = tokio::spawn(async move {
            loop {
                sleep(PATIENCE).await;
                let text = trouble.borrow_and_update().clone();
                if let Some(text) = text {
                    log::say(format_args!("waiting: {text}"));
                }
                if trouble.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(Session { client, teller })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.teller.abort();
    }
}

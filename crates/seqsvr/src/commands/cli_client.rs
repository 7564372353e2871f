//! The client of a command, which prints what it waits for.

use std::time::Duration;

use seqsvr_client::{Client, ClientOptions};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::cli;
use crate::output::log;

/// Time after which a waiting command prints what it waits for.
const WAIT_NOTICE_DELAY: Duration = Duration::from_millis(700);

/// A client that prints on stderr what it waits for, until it is dropped.
pub(crate) struct CliClient {
    pub(crate) sdk: Client,
    wait_printer: JoinHandle<()>,
}

impl CliClient {
    /// Creates a client of these addresses; it connects at its first call.
    ///
    /// # Errors
    /// An address is malformed.
    pub(crate) fn connect(args: &cli::ClientArgs) -> anyhow::Result<CliClient> {
        let mut options = ClientOptions::new(args.addresses()).with_deadline(args.timeout);
        if let Some(dir) = &args.tls_dir {
            options = options.with_tls_dir(dir);
        }
        let sdk = Client::new(options)?;
        let mut wait_status = sdk.wait_status();
        let wait_printer = tokio::spawn(async move {
            loop {
                sleep(WAIT_NOTICE_DELAY).await;
                let text = wait_status.borrow_and_update().clone();
                if let Some(text) = text {
                    log::log_unfiltered(format_args!("waiting: {text}"));
                }
                if wait_status.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(CliClient { sdk, wait_printer })
    }
}

impl Drop for CliClient {
    fn drop(&mut self) {
        self.wait_printer.abort();
    }
}

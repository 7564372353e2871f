//! The client of a command, which prints what it waits for.

use std::time::Duration;

use seqsvr_client::Client;
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
    /// An address is malformed, or a file for TLS or the token cannot be used.
    pub(crate) fn connect(args: &cli::ClientArgs) -> anyhow::Result<CliClient> {
        let sdk = Client::new(args.options())?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct AnyCommand {
        #[command(flatten)]
        client: cli::ClientArgs,
    }

    /// Returns why a command with these flags does not begin.
    async fn why_rejected(flags: &str) -> String {
        let words = flags.split(' ');
        let command = AnyCommand::try_parse_from(std::iter::once("any").chain(words));
        let rejected = CliClient::connect(&command.unwrap().client).err().unwrap();
        let error = rejected.downcast_ref::<seqsvr_client::Error>().unwrap();
        assert_eq!(error.code(), seqsvr_client::Code::InvalidArgument);
        rejected.to_string()
    }

    #[tokio::test]
    async fn wrong_file_of_a_connection_is_named_before_anything_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let (token, bad) = (file("a.token"), file("bad"));
        let hidden = format!("sq_{}", "0123456789abcdef".repeat(4));
        std::fs::write(&token, format!("{hidden}\n")).unwrap();
        std::fs::write(&bad, &hidden[1..]).unwrap();
        for path in [&token, &bad] {
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(Path::new(path), private).unwrap();
        }
        for (flags, words) in [
            ("--ca c --tls-dir d", "give one of them"),
            (&format!("--ca {}", file("no")), "name the ca.pem"),
            (&format!("--ca {token}"), "no PEM"),
            (&format!("--token-file {}", file("no")), "auth add --out"),
            (&format!("--token-file {bad}"), "it is no token"),
            (
                &format!("--token-file {token} --server 127.0.0.1,10.0.0.7"),
                "no token is sent to 10.0.0.7:7700 without TLS",
            ),
        ] {
            let text = why_rejected(flags).await;
            assert!(text.contains(words), "{flags}: {text}");
            assert!(!text.contains(&hidden[3..20]), "{flags}: {text}");
        }
    }
}

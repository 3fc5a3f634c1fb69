//! A started git, to its end: fed, read, and waited for at once, so that no pipe that is full holds it up.

use std::{io, process::Output};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Child,
};

/// Feeds a process, reads what it says, and waits for its end.
pub(super) async fn finished(child: &mut Child, input: &[u8]) -> io::Result<Output> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A git that does not read everything closes the pipe; its exit tells more.
            let _ = stdin.write_all(input).await;
        }
    };
    let ((), stdout, stderr, status) = tokio::join!(feed, all(stdout), all(stderr), child.wait());
    Ok(Output { status: status?, stdout: stdout?, stderr: stderr? })
}

async fn all(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut read).await?;
    }
    Ok(read)
}

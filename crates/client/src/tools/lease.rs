//! Leases of a connection that was opened for sessions. When the last lease ends, the connection closes.

use std::sync::Arc;

use super::{ClientTools, State};
use crate::error::Error;

/// A session's lease of the connection.
#[derive(Debug)]
pub(crate) struct ToolsLease {
    tools: ClientTools,
    user: Arc<()>,
}

impl ToolsLease {
    /// Connects the tools for a session; `None` if they are connected already for another purpose.
    pub(crate) async fn begin(tools: &ClientTools) -> Result<Option<Self>, Error> {
        let lease = Self::join(tools).await;
        // The lock is not held here, because connecting may take forever, and `end` needs the lock.
        match tools.connect(None).await {
            Ok(()) => Ok(lease),
            Err(error) => {
                Self::end(lease).await;
                Err(error)
            }
        }
    }

    async fn join(tools: &ClientTools) -> Option<Self> {
        let mut sessions = tools.inner.sessions.lock().await;
        let is_closed = matches!(*tools.state().borrow(), State::Closed(_));
        let user = sessions.upgrade().or_else(|| is_closed.then(Arc::default))?;
        *sessions = Arc::downgrade(&user);
        Some(Self { tools: tools.clone(), user })
    }

    /// Disconnects the tools if no other session needs them.
    pub(crate) async fn end(lease: Option<Self>) {
        let Some(Self { tools, user }) = lease else { return };
        // The lock is held until the tools are disconnected, so that a session that starts meanwhile reconnects them.
        let _sessions = tools.inner.sessions.lock().await;
        if Arc::into_inner(user).is_some() {
            tools.disconnect().await;
        }
    }
}

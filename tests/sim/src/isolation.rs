//! Whether what one client does shows in what another one is told.

"""Live service: REST, the shopper's page, and sessions on top of the dialog loop."""

"""The audit log: what people did to a company or to the whole service, when and why."""

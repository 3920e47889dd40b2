"""Dramatiq workers: one module for each queue. An actor loads, decides, stores, and enqueues what follows."""

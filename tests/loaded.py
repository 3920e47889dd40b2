"""Loads the service once, for all processes that are forked from the one that imports this module. What the service
loads when it is first needed is loaded here too: the kinds of gateways, what signs PDF files and compares schemas, and
the roads."""

import gc
from importlib import import_module

import apprise

from deploy.forks import load_service
from domain.accounts import passwords
from domain.roads import Point
from domain.roads.highways import HighwayRoads
from domain.signing.signed_pdf import load_pdf_libraries
from ingress.console import signed_in
from tests.factories import JOLIET, NEWARK, PERRYSBURG, PROCESS_HASHER

load_service()
load_pdf_libraries()
import_module("domain.migrations.drift")
apprise.Apprise().add("json://localhost/")
HighwayRoads().through([Point(stop["latitude"], stop["longitude"]) for stop in (JOLIET, PERRYSBURG, NEWARK)])
vars(passwords)["_hasher"] = PROCESS_HASHER
vars(signed_in)["LONGEST_COUNT_MILLISECONDS"] = 30_000  # a busy machine takes no counts from the navigation
gc.collect()
gc.freeze()  # what is loaded stays shared: the collector would write to it

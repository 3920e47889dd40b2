"""first schema

Its revision is a date: databases of the first build are at numbers, and are refused.

Revision ID: 20261122b
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261122b"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "companies",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("time_zone", sa.String(), server_default=sa.text("'UTC'"), nullable=False),
        sa.Column("import_window_days", sa.Float(), server_default=sa.text("7"), nullable=False),
        sa.Column("superseding", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("reserve_percent", sa.Float(), server_default=sa.text("15"), nullable=False),
        sa.Column("end_fuel_percent", sa.Float(), server_default=sa.text("25"), nullable=False),
        sa.Column("assumed_fuel_percent", sa.Float(), server_default=sa.text("50"), nullable=False),
        sa.Column("min_purchase_gallons", sa.Float(), server_default=sa.text("30"), nullable=False),
        sa.Column("stop_cost", sa.Float(), server_default=sa.text("20"), nullable=False),
        sa.Column("max_detour_miles", sa.Float(), server_default=sa.text("5"), nullable=False),
        sa.Column("max_stops", sa.Integer(), nullable=True),
        sa.Column("objective", sa.String(), server_default=sa.text("'pump'"), nullable=False),
        sa.Column("leftover_value_per_gallon", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("message_url", sa.String(), nullable=True),
        sa.Column("fuel_margin_percent", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("map_link", sa.String(), server_default=sa.text("'google'"), nullable=False),
        sa.Column("replan_en_route", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("objective IN ('pump', 'tax-adjusted')", name="objective"),
        sa.CheckConstraint("map_link IN ('google', 'geo')", name="map_link"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "erasures",
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("erased_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("subject_id"),
    )
    op.create_table(
        "fuel_taxes",
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("valid_from", sa.Date(), nullable=False),
        sa.Column("rate_per_gallon", sa.Float(), nullable=False),
        sa.Column("surcharge_per_gallon", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("state", "valid_from"),
    )
    op.create_table(
        "positions",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("latitude", sa.Float(), nullable=False),
        sa.Column("longitude", sa.Float(), nullable=False),
        sa.Column("speed_mph", sa.Float(), nullable=True),
        sa.Column("fuel_percent", sa.Float(), nullable=True),
        sa.Column("accuracy_meters", sa.Float(), nullable=True),
        sa.Column(
            "received_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("implausible", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("vehicle_id", "environment", "recorded_at"),
        postgresql_partition_by="LIST (environment)",
    )
    op.create_table(
        "route_count_deltas",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("day", sa.DateTime(timezone=True), nullable=False),
        sa.Column("routes", sa.Integer(), nullable=False),
    )
    op.create_index("route_count_deltas_by_tenant", "route_count_deltas", ["company_id", "environment"], unique=False)
    op.create_table(
        "route_counts",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("day", sa.DateTime(timezone=True), nullable=False),
        sa.Column("routes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("company_id", "environment", "status", "day"),
    )
    op.create_table(
        "stations",
        sa.Column("station_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("brand", sa.String(), nullable=True),
        sa.Column("address", sa.String(), nullable=True),
        sa.Column("city", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=True),
        sa.Column("latitude", sa.Float(), nullable=False),
        sa.Column("longitude", sa.Float(), nullable=False),
        sa.Column("retail_price", sa.Float(), nullable=True),
        sa.Column("priced_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("station_id"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_api_keys_company_id"), "api_keys", ["company_id"], unique=False)
    op.create_index(op.f("ix_api_keys_prefix"), "api_keys", ["prefix"], unique=False)
    op.create_table(
        "deals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("station_id", sa.String(), nullable=True),
        sa.Column("brand", sa.String(), nullable=True),
        sa.Column("discount_per_gallon", sa.Float(), nullable=True),
        sa.Column("net_price", sa.Float(), nullable=True),
        sa.Column("valid_from", sa.Date(), nullable=True),
        sa.Column("valid_to", sa.Date(), nullable=True),
        sa.CheckConstraint("num_nonnulls(discount_per_gallon, net_price) = 1", name="deals_one_price"),
        sa.CheckConstraint("num_nonnulls(station_id, brand) = 1", name="deals_one_key"),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint(
            "company_id", "station_id", "brand", "valid_from", name="deals_key", postgresql_nulls_not_distinct=True
        ),
    )
    op.create_table(
        "drivers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("display_name", sa.String(), nullable=True),
        sa.Column("external_id", sa.String(), nullable=True),
        sa.Column("contact", sa.String(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "drivers_external_id",
        "drivers",
        ["company_id", "external_id"],
        unique=True,
        postgresql_where=sa.text("retired_at IS NULL AND external_id IS NOT NULL"),
    )
    op.create_index("drivers_name", "drivers", ["company_id", "name", "id"], unique=False)
    op.create_table(
        "dropped_fixes",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("company_id", "environment", "day", "reason"),
    )
    op.create_table(
        "mappings",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("target_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("company_id", "kind", "value"),
    )
    op.create_table(
        "price_sets",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=True),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "vehicles",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("unit_number", sa.String(), nullable=True),
        sa.Column("vin", sa.String(), nullable=True),
        sa.Column("license_plate", sa.String(), nullable=True),
        sa.Column("make", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("year", sa.String(), nullable=True),
        sa.Column("fuel_tank_capacity_gallons", sa.Float(), nullable=True),
        sa.Column("mpg", sa.Float(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("vehicles_in_order", "vehicles", ["company_id", "unit_number", "id"], unique=False)
    op.create_index(
        "vehicles_unit_number",
        "vehicles",
        ["company_id", "unit_number"],
        unique=True,
        postgresql_where=sa.text("retired_at IS NULL AND unit_number IS NOT NULL"),
    )
    op.create_index(
        "vehicles_vin",
        "vehicles",
        ["company_id", "vin"],
        unique=False,
        postgresql_where=sa.text("vin IS NOT NULL"),
    )
    op.create_table(
        "routes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=False),
        sa.Column("reference", sa.String(), nullable=True),
        sa.Column("vehicle_unit_number", sa.String(), nullable=True),
        sa.Column("vehicle_vin", sa.String(), nullable=True),
        sa.Column("driver_name", sa.String(), nullable=True),
        sa.Column("driver_external_id", sa.String(), nullable=True),
        sa.Column("scheduled_start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stops", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("pending_reason", sa.String(), nullable=True),
        sa.Column("pending_detail", sa.String(), nullable=True),
        sa.Column("closed_reason", sa.String(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("vehicle_id", sa.Uuid(), nullable=True),
        sa.Column("driver_id", sa.Uuid(), nullable=True),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("arrived_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("plan_id", sa.Uuid(), nullable=True),
        sa.Column("review_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("review_requests", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("review_cause", sa.String(), nullable=True),
        sa.Column("correction_id", sa.Uuid(), nullable=True),
        sa.Column("corrected_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("replan", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("distance_miles", sa.Float(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.CheckConstraint(
            "status IN ('pending', 'pending_mapping', 'pending_window', 'draft', 'planned', 'active', 'completed', 'error', 'canceled')",
            name="status",
        ),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "routes_by_driver", "routes", ["driver_id"], unique=False, postgresql_where=sa.text("driver_id IS NOT NULL")
    )
    op.create_index(
        "routes_by_start",
        "routes",
        ["company_id", "environment", sa.literal_column("scheduled_start DESC"), "id"],
        unique=False,
    )
    op.create_index(
        "routes_by_status",
        "routes",
        ["company_id", "environment", "status", sa.literal_column("scheduled_start DESC"), "id"],
        unique=False,
    )
    op.create_index(
        "routes_by_vehicle",
        "routes",
        ["vehicle_id", "company_id", "environment", sa.literal_column("scheduled_start DESC"), "id"],
        unique=False,
        postgresql_where=sa.text("vehicle_id IS NOT NULL"),
    )
    op.create_index(
        "routes_canceled",
        "routes",
        ["company_id", "environment", "external_id", "created_at"],
        unique=False,
        postgresql_where=sa.text("status = 'canceled'"),
    )
    op.create_index(
        "routes_external_id",
        "routes",
        ["company_id", "environment", "external_id"],
        unique=True,
        postgresql_where=sa.text("status <> 'canceled'"),
    )
    op.create_index(
        "routes_held_by_start",
        "routes",
        ["status", "scheduled_start"],
        unique=False,
        postgresql_where=sa.text("status IN ('pending_mapping','pending_window')"),
    )
    op.create_index(
        "routes_pending", "routes", ["retry_at"], unique=False, postgresql_where=sa.text("status = 'pending'")
    )
    op.create_index(
        "routes_plan_due",
        "routes",
        ["retry_at"],
        unique=False,
        postgresql_where=sa.text("status = 'draft' AND arrived_at IS NOT NULL"),
    )
    op.create_index(
        "routes_review_due", "routes", ["review_at"], unique=False, postgresql_where=sa.text("review_at IS NOT NULL")
    )
    op.create_index(
        "routes_started",
        "routes",
        ["vehicle_id", "environment"],
        unique=False,
        postgresql_where=sa.text("status IN ('planned','active') OR status = 'draft' AND arrived_at IS NOT NULL"),
    )
    op.create_index(
        "routes_superseding",
        "routes",
        ["company_id", "environment", "reference"],
        unique=False,
        postgresql_where=sa.text(
            "reference <> '' AND status IN ('pending','pending_mapping','pending_window','draft','planned')"
        ),
    )
    op.create_index(
        "routes_to_start",
        "routes",
        ["vehicle_id", "environment", "scheduled_start", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'draft' AND arrived_at IS NULL"),
    )
    op.create_index(
        "routes_waiting_for_driver_external_id",
        "routes",
        ["company_id", "driver_external_id", "id"],
        unique=False,
        postgresql_where=sa.text(
            "status = 'pending_mapping' AND pending_reason = 'driver_unmapped' AND driver_external_id IS NOT NULL"
        ),
    )
    op.create_index(
        "routes_waiting_for_driver_name",
        "routes",
        ["company_id", "driver_name", "id"],
        unique=False,
        postgresql_where=sa.text(
            "status = 'pending_mapping' AND pending_reason = 'driver_unmapped' AND driver_name IS NOT NULL"
        ),
    )
    op.create_index(
        "routes_waiting_for_unit_number",
        "routes",
        ["company_id", "vehicle_unit_number", "id"],
        unique=False,
        postgresql_where=sa.text(
            "status = 'pending_mapping' AND pending_reason = 'vehicle_unmapped' AND vehicle_unit_number IS NOT NULL"
        ),
    )
    op.create_index(
        "routes_waiting_for_vin",
        "routes",
        ["company_id", "vehicle_vin", "id"],
        unique=False,
        postgresql_where=sa.text(
            "status = 'pending_mapping' AND pending_reason = 'vehicle_unmapped' AND vehicle_vin IS NOT NULL"
        ),
    )
    op.create_table(
        "tracks",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("oldest_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("latitude", sa.Float(), nullable=False),
        sa.Column("longitude", sa.Float(), nullable=False),
        sa.Column("unprocessed_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("unprocessed_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("free_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("freed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("watch_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("watch_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fuel_stops_passed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["vehicle_id"],
            ["vehicles.id"],
        ),
        sa.PrimaryKeyConstraint("vehicle_id", "environment"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "tracks_unprocessed",
        "tracks",
        ["unprocessed_since"],
        unique=False,
        postgresql_where=sa.text("unprocessed_from IS NOT NULL"),
    )
    op.create_table(
        "plans",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("generated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("explanation", sa.LargeBinary(), nullable=True),
        sa.Column("fuel_percent", sa.Float(), nullable=False),
        sa.Column("fuel_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("price_set", sa.BigInteger(), nullable=True),
        sa.Column("timeline", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("as_of", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cause", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.ForeignKeyConstraint(
            ["route_id"],
            ["routes.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_plans_route_id"), "plans", ["route_id"], unique=False)
    op.create_index(
        "plans_explained", "plans", ["route_id"], unique=False, postgresql_where=sa.text("explanation IS NOT NULL")
    )
    op.create_table(
        "visits",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("stop", sa.Integer(), nullable=False),
        sa.Column("arrived_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("departed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("arrival_evidence", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("departure_evidence", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("stored_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["route_id"],
            ["routes.id"],
        ),
        sa.PrimaryKeyConstraint("route_id", "stop"),
    )
    op.create_index(
        "visits_with_evidence",
        "visits",
        ["route_id"],
        unique=False,
        postgresql_where=sa.text("arrival_evidence IS NOT NULL"),
    )
    op.create_table(
        "savings",
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column("driver_id", sa.Uuid(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("destination", sa.String(), nullable=False),
        sa.Column("gallons", sa.Float(), nullable=False),
        sa.Column("cost_cents", sa.BigInteger(), nullable=False),
        sa.Column("saved_cents", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["route_id"],
            ["routes.id"],
        ),
        sa.PrimaryKeyConstraint("route_id"),
    )
    op.create_index("savings_by_time", "savings", ["company_id", "environment", "planned_at"], unique=False)
    op.create_table(
        "route_events",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=True),
        sa.Column("detail", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["route_id"],
            ["routes.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_route_events_route_id"), "route_events", ["route_id"], unique=False)
    op.create_index(
        "route_events_with_detail",
        "route_events",
        ["route_id"],
        unique=False,
        postgresql_where=sa.text("detail IS NOT NULL"),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("driver_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.String(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("channel", sa.String(), nullable=True),
        sa.Column("text", sa.String(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("queued_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("status IN ('pending', 'sent', 'suppressed', 'failed')", name="status"),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.ForeignKeyConstraint(
            ["driver_id"],
            ["drivers.id"],
        ),
        sa.ForeignKeyConstraint(
            ["plan_id"],
            ["plans.id"],
        ),
        sa.ForeignKeyConstraint(
            ["route_id"],
            ["routes.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("plan_id"),
    )
    op.create_index(op.f("ix_messages_route_id"), "messages", ["route_id"], unique=False)
    op.create_index("messages_by_company", "messages", ["company_id", "created_at"], unique=False)
    op.create_index("messages_by_driver", "messages", ["driver_id"], unique=False)
    op.create_index(
        "messages_due", "messages", ["retry_at"], unique=False, postgresql_where=sa.text("status = 'pending'")
    )
    op.create_index(
        "messages_with_text", "messages", ["route_id"], unique=False, postgresql_where=sa.text("text IS NOT NULL")
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=True),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("password_hash", sa.String(), nullable=True),
        sa.Column("totp_secret", sa.String(), nullable=True),
        sa.Column("totp_used_step", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("role IN ('viewer', 'dispatcher', 'owner', 'operator')", name="role"),
        sa.CheckConstraint("(role = 'operator') = (company_id IS NULL)", name="users_company"),
        sa.ForeignKeyConstraint(["company_id"], ["companies.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("email", name="users_email"),
    )
    op.create_index("ix_users_company_id", "users", ["company_id"])
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=True),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["company_id"], ["companies.id"], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("token_hash"),
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    for table in ("devices", "password_links"):
        op.create_table(
            table,
            sa.Column("token_hash", sa.LargeBinary(), nullable=False),
            sa.Column("user_id", sa.Uuid(), nullable=False),
            sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
            sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
            sa.PrimaryKeyConstraint("token_hash"),
        )
        op.create_index(f"ix_{table}_user_id", table, ["user_id"])
    op.create_table(
        "sign_in_attempts",
        sa.Column("subject", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.Float(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
    )
    op.create_index("ix_sign_in_attempts_last_at", "sign_in_attempts", ["last_at"])
    op.create_table(
        "queue_pauses",
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("paused_by", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("queue"),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("affected", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_log_of_company", "audit_log", ["company_id", "id"], unique=False)
    op.create_table(
        "request_log",
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("code", sa.String(), nullable=True),
        sa.Column("milliseconds", sa.REAL(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("sent", sa.String(), nullable=True),
        sa.Column("faults", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("key_id", "id"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("request_log_failed", "request_log", ["key_id", "id"], postgresql_where=sa.text("status >= 400"))
    # a range holds about as many names as its filters are made for; what is not summarized yet is read as it is
    op.execute(
        "CREATE INDEX request_log_names ON request_log USING brin (subject text_bloom_ops (n_distinct_per_range = 1800),"
        " request_id text_bloom_ops (n_distinct_per_range = 1800)) WITH (pages_per_range = 32, autosummarize = on)"
    )
    op.execute("CREATE TABLE request_log_other PARTITION OF request_log DEFAULT")
    op.create_index("audit_log_by_subject", "audit_log", ["subject", "id"], unique=False)
    op.create_table(
        "csv_imports",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("beat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("rows_total", sa.Integer(), nullable=False),
        sa.Column("rows_read", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("updated", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("unchanged", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("refused", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("rejected", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("fault", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["company_id"],
            ["companies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("csv_imports_by_company", "csv_imports", ["company_id", "id"], unique=False)
    op.create_index(
        "csv_imports_running",
        "csv_imports",
        ["company_id"],
        unique=True,
        postgresql_where=sa.text("finished_at IS NULL"),
        postgresql_nulls_not_distinct=True,
    )
    op.execute("CREATE TABLE positions_sandbox PARTITION OF positions FOR VALUES IN ('sandbox')")
    op.execute(
        "CREATE TABLE positions_live PARTITION OF positions FOR VALUES IN ('live') PARTITION BY RANGE (recorded_at)"
    )
    op.execute("CREATE TABLE positions_live_other PARTITION OF positions_live DEFAULT")
    # vacuumed early, so that a list reads no rows of what it skips
    op.execute(
        "ALTER TABLE routes SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)"
    )
    for event, change in _CHANGES_OF_COUNTS.items():
        insert = f"INSERT INTO route_count_deltas (company_id, environment, status, day, routes) {change}"
        _count_routes_on(event, f"REFERENCING {_TRANSITION_TABLES[event]}", insert)
    _count_routes_on("truncate", "", "TRUNCATE route_counts, route_count_deltas")


_COUNTED = "company_id, environment, status, date_bin('1 day', scheduled_start, timestamptz 'epoch')"
_CHANGES_OF_COUNTS = {
    "insert": f"SELECT {_COUNTED}, count(*) FROM new_routes GROUP BY 1, 2, 3, 4",
    "update": f"""
        SELECT {_COUNTED}, sum(change) FROM (
            SELECT company_id, environment, status, scheduled_start, 1 AS change FROM new_routes UNION ALL
            SELECT company_id, environment, status, scheduled_start, -1 FROM old_routes) AS changed
        GROUP BY 1, 2, 3, 4 HAVING sum(change) <> 0""",
    "delete": f"SELECT {_COUNTED}, -count(*) FROM old_routes GROUP BY 1, 2, 3, 4",
}
"""The change by one statement of the number of routes of a tenant, a status and a day; see
`domain/routes/reading/counts.py`."""
_TRANSITION_TABLES = {
    "insert": "NEW TABLE AS new_routes",
    "update": "OLD TABLE AS old_routes NEW TABLE AS new_routes",
    "delete": "OLD TABLE AS old_routes",
}


def _count_routes_on(event: str, referencing: str, command: str) -> None:
    function = f"count_routes_on_{event}"
    op.execute(
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {command}; RETURN NULL; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {function} AFTER {event.upper()} ON routes {referencing}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    )

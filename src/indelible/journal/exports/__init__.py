"""The record for others: bundles, pages, tables, receipts."""

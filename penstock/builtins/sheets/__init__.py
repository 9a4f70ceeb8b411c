"""Tables in files: csv and Excel workbooks."""

// What the built-in tools return, one line each.

type FloImported = { skill_id: string; resource_id: string; kind: "text" | "blob"; mime_type: string; relative_path: string; destination_path: string };
type FloCell = string | number | boolean | null;
type FloBook = { format: "csv" | "xlsx"; path: string };
type FloSheet = FloBook & { sheet: string };
type FloCellAt = { cell: string; sheet: string };
type FloCells<Cell> = FloSheet & { range: string; rows: number; columns: number; values: Cell[][] };
type FloInspected<Cell> = { format: "csv" | "xlsx"; path: string; sheets: { name: string; rows: number; columns: number; preview: Cell[][]; preview_range: string }[] };
type FloSaved = { /** What the file had and has not any more. */ not_kept?: string[] };
type FloCopied = FloBook & { applied_targets: FloJsonValue[]; copied_count: number; sheets_touched: string[] };

type FloSchedule = { id: string; name: string; type: string; cron: string | null; timezone: string; workflowId: string | null; status: string; nextRun: string | null; lastRun: string | null; lastStatus: string | null; missed: number };

interface FloBuiltInOutputs {
  list_available_skills: { skill_count: number; skills: { skill_id: string; name: string; description: string; resource_count: number; tools: string[] }[] };
  activate_skill: { skill_id: string; selected_skill_ids: string[] };
  read_skill_resource: { skill_id: string; resource_id: string; kind: "text"; content: string; mime_type: string; relative_path: string; destination_path?: undefined } | (FloImported & { content?: undefined });
  import_skill_asset: FloImported;
  ask_user: { status?: "answered" | "follow_up" | "cancelled"; question_id?: string; value?: string; user_message?: string; instruction?: string; /** Of a question with a type. */ answer?: string | string[] | boolean };
  read_tool_result_artifact: { data: any; content_type: string; offset: number; has_more: boolean; returned_bytes: number; total_bytes: number; returned_items?: number; total_items?: number };
  list_tool_result_artifacts: { entries: { artifact_id: string; tool_name: string; summary: string; content_type: string; size_bytes: number; first_seen_sequence: number; preview: string }[]; has_more: boolean; next_offset: number | null; total_entries: number };
  read_text_file: { path: string; content: string; size_bytes: number; max_bytes: number };
  write_text_file: { path: string; bytes_written: number };
  read_file_base64: { path: string; base64_data: string; size_bytes: number; max_bytes: number };
  read_dir: { path: string; entry_count: number; entries: { path: string; name: string; entry_type: "file" | "directory" }[]; truncated?: boolean };
  zip: { input_paths: string[]; output_path: string; entry_count: number; size_bytes: number };
  unzip: { input_path: string; output_dir: string; entry_count: number; written_paths: string[] };
  download_url_to_file: { url: string; output_path: string; size_bytes: number; content_type?: string };
  csv_inspect: FloInspected<string>;
  csv_read: FloCells<string | null>;
  csv_create: FloSheet;
  csv_edit_cells: FloSheet;
  media_fetch: { media_id: string; media_type: string; output_path: string; expires_at: string };
  media_push_vfs: { media_id: string; media_type: string; size_bytes: number; expires_at: string; input_path: string };
  media_push_base64: { media_id: string; media_type: string; size_bytes: number; expires_at: string; filename?: string };
  get_media_download_url: { media_id: string; download_url: string; expires_at: string; media_type: string; size_bytes: number; filename?: string };
  send_media_attachment: { send_as_attachment: true; media_id: string; media_type: string; size_bytes: number; filename?: string } | { send_as_attachment: false; download_url: string; media_id?: string; media_type?: string; size_bytes?: number; filename?: string };
  excel_inspect: FloInspected<FloCell> & { not_kept_by_edits?: string[] };
  excel_read: FloCells<FloCell>;
  excel_create: FloSheet;
  excel_edit_cells: FloSheet & FloSaved;
  excel_copy_cell_style: FloCopied & FloSaved & { source_cell: string };
  excel_clear_cell_style: FloBook & FloSaved & { cleared_count: number; cleared_targets: FloCellAt[]; sheets_touched: string[] };
  excel_copy_row: FloCopied & FloSaved & { source_row: FloJsonValue };
  excel_copy_column: FloCopied & FloSaved & { source_column: FloJsonValue };
  excel_edit_structure: FloSheet & FloSaved & { applied_count: number; applied_operations: FloJsonValue[]; stale_formulas?: string[] };
  excel_auto_fit_row: FloSheet & FloSaved & { row: number };
  excel_apply_changes: FloBook & FloSaved & { applied_count: number; applied_operations: FloJsonValue[]; cell_assignment_count: number; applied_row_copy_count: number; applied_row_copies: FloJsonValue[]; applied_column_copy_count: number; applied_column_copies: FloJsonValue[]; applied_style_copy_count: number; applied_style_copies: FloJsonValue[]; applied_auto_fit_count: number; applied_auto_fit_rows: { row: number; sheet: string }[]; sheets_touched: string[] };
  get_schedule_info: FloSchedule | { results: FloSchedule[] };
  create_schedule: { id: string; name: string; type: string; cron: string | null; timezone: string; workflowId: string | null; status: string; nextRun: string | null; nextRuns: string[] };
  send_notification: { channel_id: string; channel_name: string; delivered: boolean; kind: string };
}

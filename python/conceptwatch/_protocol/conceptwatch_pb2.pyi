from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ActivationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVATION_KIND_UNSPECIFIED: _ClassVar[ActivationKind]
    ACTIVATION_KIND_HARD: _ClassVar[ActivationKind]
    ACTIVATION_KIND_PROBABILITY: _ClassVar[ActivationKind]
    ACTIVATION_KIND_LOGIT: _ClassVar[ActivationKind]
    ACTIVATION_KIND_CONTINUOUS: _ClassVar[ActivationKind]

class ActivationColumns(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVATION_COLUMNS_UNSPECIFIED: _ClassVar[ActivationColumns]
    ACTIVATION_COLUMNS_ONE_PER_CONCEPT: _ClassVar[ActivationColumns]
    ACTIVATION_COLUMNS_TWO_PER_CONCEPT: _ClassVar[ActivationColumns]

class LabelKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LABEL_KIND_UNSPECIFIED: _ClassVar[LabelKind]
    LABEL_KIND_CLASS: _ClassVar[LabelKind]
    LABEL_KIND_CONTINUOUS: _ClassVar[LabelKind]

class Training(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRAINING_UNSPECIFIED: _ClassVar[Training]
    TRAINING_JOINT: _ClassVar[Training]
    TRAINING_SEQUENTIAL: _ClassVar[Training]
    TRAINING_INDEPENDENT: _ClassVar[Training]

class WindowKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WINDOW_KIND_UNSPECIFIED: _ClassVar[WindowKind]
    WINDOW_KIND_PASS: _ClassVar[WindowKind]
    WINDOW_KIND_RECENT: _ClassVar[WindowKind]
    WINDOW_KIND_ALL: _ClassVar[WindowKind]

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_TRAINING: _ClassVar[RunState]
    RUN_STATE_STALLED: _ClassVar[RunState]
    RUN_STATE_LOST: _ClassVar[RunState]
    RUN_STATE_FINISHED: _ClassVar[RunState]
    RUN_STATE_STOPPED_ON_ADVICE: _ClassVar[RunState]
    RUN_STATE_FAILED: _ClassVar[RunState]

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNSPECIFIED: _ClassVar[DataType]
    DATA_TYPE_FLOAT16: _ClassVar[DataType]
    DATA_TYPE_BFLOAT16: _ClassVar[DataType]
    DATA_TYPE_FLOAT32: _ClassVar[DataType]
    DATA_TYPE_FLOAT64: _ClassVar[DataType]
    DATA_TYPE_INT8: _ClassVar[DataType]
    DATA_TYPE_INT16: _ClassVar[DataType]
    DATA_TYPE_INT32: _ClassVar[DataType]
    DATA_TYPE_INT64: _ClassVar[DataType]
    DATA_TYPE_UINT8: _ClassVar[DataType]
    DATA_TYPE_UINT16: _ClassVar[DataType]
    DATA_TYPE_UINT32: _ClassVar[DataType]
    DATA_TYPE_UINT64: _ClassVar[DataType]
    DATA_TYPE_BOOL: _ClassVar[DataType]
    DATA_TYPE_STRING: _ClassVar[DataType]

class AlertState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ALERT_STATE_UNSPECIFIED: _ClassVar[AlertState]
    ALERT_STATE_INACTIVE: _ClassVar[AlertState]
    ALERT_STATE_PENDING: _ClassVar[AlertState]
    ALERT_STATE_FIRING: _ClassVar[AlertState]

class VerdictState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_STATE_UNSPECIFIED: _ClassVar[VerdictState]
    VERDICT_STATE_LEAKING: _ClassVar[VerdictState]
    VERDICT_STATE_POSSIBLY_LEAKING: _ClassVar[VerdictState]
    VERDICT_STATE_SOUND: _ClassVar[VerdictState]
    VERDICT_STATE_NOTHING_FOUND: _ClassVar[VerdictState]
    VERDICT_STATE_CANNOT_TELL: _ClassVar[VerdictState]
    VERDICT_STATE_TOO_EARLY: _ClassVar[VerdictState]

class DiagnosisState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIAGNOSIS_STATE_UNSPECIFIED: _ClassVar[DiagnosisState]
    DIAGNOSIS_STATE_FOUND: _ClassVar[DiagnosisState]
    DIAGNOSIS_STATE_ABSENT: _ClassVar[DiagnosisState]
    DIAGNOSIS_STATE_UNKNOWN: _ClassVar[DiagnosisState]
ACTIVATION_KIND_UNSPECIFIED: ActivationKind
ACTIVATION_KIND_HARD: ActivationKind
ACTIVATION_KIND_PROBABILITY: ActivationKind
ACTIVATION_KIND_LOGIT: ActivationKind
ACTIVATION_KIND_CONTINUOUS: ActivationKind
ACTIVATION_COLUMNS_UNSPECIFIED: ActivationColumns
ACTIVATION_COLUMNS_ONE_PER_CONCEPT: ActivationColumns
ACTIVATION_COLUMNS_TWO_PER_CONCEPT: ActivationColumns
LABEL_KIND_UNSPECIFIED: LabelKind
LABEL_KIND_CLASS: LabelKind
LABEL_KIND_CONTINUOUS: LabelKind
TRAINING_UNSPECIFIED: Training
TRAINING_JOINT: Training
TRAINING_SEQUENTIAL: Training
TRAINING_INDEPENDENT: Training
WINDOW_KIND_UNSPECIFIED: WindowKind
WINDOW_KIND_PASS: WindowKind
WINDOW_KIND_RECENT: WindowKind
WINDOW_KIND_ALL: WindowKind
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_TRAINING: RunState
RUN_STATE_STALLED: RunState
RUN_STATE_LOST: RunState
RUN_STATE_FINISHED: RunState
RUN_STATE_STOPPED_ON_ADVICE: RunState
RUN_STATE_FAILED: RunState
DATA_TYPE_UNSPECIFIED: DataType
DATA_TYPE_FLOAT16: DataType
DATA_TYPE_BFLOAT16: DataType
DATA_TYPE_FLOAT32: DataType
DATA_TYPE_FLOAT64: DataType
DATA_TYPE_INT8: DataType
DATA_TYPE_INT16: DataType
DATA_TYPE_INT32: DataType
DATA_TYPE_INT64: DataType
DATA_TYPE_UINT8: DataType
DATA_TYPE_UINT16: DataType
DATA_TYPE_UINT32: DataType
DATA_TYPE_UINT64: DataType
DATA_TYPE_BOOL: DataType
DATA_TYPE_STRING: DataType
ALERT_STATE_UNSPECIFIED: AlertState
ALERT_STATE_INACTIVE: AlertState
ALERT_STATE_PENDING: AlertState
ALERT_STATE_FIRING: AlertState
VERDICT_STATE_UNSPECIFIED: VerdictState
VERDICT_STATE_LEAKING: VerdictState
VERDICT_STATE_POSSIBLY_LEAKING: VerdictState
VERDICT_STATE_SOUND: VerdictState
VERDICT_STATE_NOTHING_FOUND: VerdictState
VERDICT_STATE_CANNOT_TELL: VerdictState
VERDICT_STATE_TOO_EARLY: VerdictState
DIAGNOSIS_STATE_UNSPECIFIED: DiagnosisState
DIAGNOSIS_STATE_FOUND: DiagnosisState
DIAGNOSIS_STATE_ABSENT: DiagnosisState
DIAGNOSIS_STATE_UNKNOWN: DiagnosisState

class Concept(_message.Message):
    __slots__ = ("name", "cardinality", "activation_kind", "label_kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_KIND_FIELD_NUMBER: _ClassVar[int]
    LABEL_KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    cardinality: int
    activation_kind: ActivationKind
    label_kind: LabelKind
    def __init__(self, name: _Optional[str] = ..., cardinality: _Optional[int] = ..., activation_kind: _Optional[_Union[ActivationKind, str]] = ..., label_kind: _Optional[_Union[LabelKind, str]] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("name", "cardinality", "label_kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    LABEL_KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    cardinality: int
    label_kind: LabelKind
    def __init__(self, name: _Optional[str] = ..., cardinality: _Optional[int] = ..., label_kind: _Optional[_Union[LabelKind, str]] = ...) -> None: ...

class RunConstants(_message.Message):
    __slots__ = ("reference_task_accuracy", "concept_weights", "head_weights", "image_height", "image_width", "box_height", "box_width", "concept_parts", "concept_score_weight", "activity_threshold", "active_top_k", "clarity_weights", "intervention_counts", "head_bias", "linear_head")
    REFERENCE_TASK_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    CONCEPT_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    HEAD_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    BOX_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    BOX_WIDTH_FIELD_NUMBER: _ClassVar[int]
    CONCEPT_PARTS_FIELD_NUMBER: _ClassVar[int]
    CONCEPT_SCORE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_TOP_K_FIELD_NUMBER: _ClassVar[int]
    CLARITY_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    INTERVENTION_COUNTS_FIELD_NUMBER: _ClassVar[int]
    HEAD_BIAS_FIELD_NUMBER: _ClassVar[int]
    LINEAR_HEAD_FIELD_NUMBER: _ClassVar[int]
    reference_task_accuracy: float
    concept_weights: _containers.RepeatedScalarFieldContainer[float]
    head_weights: _containers.RepeatedScalarFieldContainer[float]
    image_height: int
    image_width: int
    box_height: int
    box_width: int
    concept_parts: _containers.RepeatedCompositeFieldContainer[ConceptParts]
    concept_score_weight: float
    activity_threshold: float
    active_top_k: int
    clarity_weights: _containers.RepeatedScalarFieldContainer[float]
    intervention_counts: _containers.RepeatedScalarFieldContainer[int]
    head_bias: _containers.RepeatedScalarFieldContainer[float]
    linear_head: bool
    def __init__(self, reference_task_accuracy: _Optional[float] = ..., concept_weights: _Optional[_Iterable[float]] = ..., head_weights: _Optional[_Iterable[float]] = ..., image_height: _Optional[int] = ..., image_width: _Optional[int] = ..., box_height: _Optional[int] = ..., box_width: _Optional[int] = ..., concept_parts: _Optional[_Iterable[_Union[ConceptParts, _Mapping]]] = ..., concept_score_weight: _Optional[float] = ..., activity_threshold: _Optional[float] = ..., active_top_k: _Optional[int] = ..., clarity_weights: _Optional[_Iterable[float]] = ..., intervention_counts: _Optional[_Iterable[int]] = ..., head_bias: _Optional[_Iterable[float]] = ..., linear_head: bool = ...) -> None: ...

class ConceptParts(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, parts: _Optional[_Iterable[int]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("name", "concepts", "activation_kind", "concept_label_kind", "task_label_kind", "world_size", "constants", "labels", "missing_concept_labels", "activation_columns", "latents", "training", "reference", "tasks", "missing_task_labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONCEPTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_KIND_FIELD_NUMBER: _ClassVar[int]
    CONCEPT_LABEL_KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_LABEL_KIND_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONSTANTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MISSING_CONCEPT_LABELS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LATENTS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_TASK_LABELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    concepts: _containers.RepeatedCompositeFieldContainer[Concept]
    activation_kind: ActivationKind
    concept_label_kind: LabelKind
    task_label_kind: LabelKind
    world_size: int
    constants: RunConstants
    labels: _containers.ScalarMap[str, str]
    missing_concept_labels: bool
    activation_columns: ActivationColumns
    latents: int
    training: Training
    reference: str
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    missing_task_labels: bool
    def __init__(self, name: _Optional[str] = ..., concepts: _Optional[_Iterable[_Union[Concept, _Mapping]]] = ..., activation_kind: _Optional[_Union[ActivationKind, str]] = ..., concept_label_kind: _Optional[_Union[LabelKind, str]] = ..., task_label_kind: _Optional[_Union[LabelKind, str]] = ..., world_size: _Optional[int] = ..., constants: _Optional[_Union[RunConstants, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., missing_concept_labels: bool = ..., activation_columns: _Optional[_Union[ActivationColumns, str]] = ..., latents: _Optional[int] = ..., training: _Optional[_Union[Training, str]] = ..., reference: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., missing_task_labels: bool = ...) -> None: ...

class StartRunRequest(_message.Message):
    __slots__ = ("run", "client", "client_version", "job", "attempt", "rank", "resume", "process", "host", "scheduler_job")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_JOB_FIELD_NUMBER: _ClassVar[int]
    run: Run
    client: str
    client_version: str
    job: str
    attempt: int
    rank: int
    resume: bool
    process: str
    host: str
    scheduler_job: str
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., client: _Optional[str] = ..., client_version: _Optional[str] = ..., job: _Optional[str] = ..., attempt: _Optional[int] = ..., rank: _Optional[int] = ..., resume: bool = ..., process: _Optional[str] = ..., host: _Optional[str] = ..., scheduler_job: _Optional[str] = ...) -> None: ...

class StartRunResponse(_message.Message):
    __slots__ = ("resumed", "server_version", "sample_rows", "sample_seed", "max_chunk_bytes", "max_batch_bytes", "windows", "default_window", "page_url", "takes_joined_ends", "run", "incarnation", "ends_unused", "data_dir")
    class WindowsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: WindowKind
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[WindowKind, str]] = ...) -> None: ...
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_ROWS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_SEED_FIELD_NUMBER: _ClassVar[int]
    MAX_CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_WINDOW_FIELD_NUMBER: _ClassVar[int]
    PAGE_URL_FIELD_NUMBER: _ClassVar[int]
    TAKES_JOINED_ENDS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ENDS_UNUSED_FIELD_NUMBER: _ClassVar[int]
    DATA_DIR_FIELD_NUMBER: _ClassVar[int]
    resumed: bool
    server_version: str
    sample_rows: int
    sample_seed: int
    max_chunk_bytes: int
    max_batch_bytes: int
    windows: _containers.ScalarMap[str, WindowKind]
    default_window: WindowKind
    page_url: str
    takes_joined_ends: bool
    run: str
    incarnation: str
    ends_unused: bool
    data_dir: str
    def __init__(self, resumed: bool = ..., server_version: _Optional[str] = ..., sample_rows: _Optional[int] = ..., sample_seed: _Optional[int] = ..., max_chunk_bytes: _Optional[int] = ..., max_batch_bytes: _Optional[int] = ..., windows: _Optional[_Mapping[str, WindowKind]] = ..., default_window: _Optional[_Union[WindowKind, str]] = ..., page_url: _Optional[str] = ..., takes_joined_ends: bool = ..., run: _Optional[str] = ..., incarnation: _Optional[str] = ..., ends_unused: bool = ..., data_dir: _Optional[str] = ...) -> None: ...

class FinishRunRequest(_message.Message):
    __slots__ = ("run", "rank", "client", "timeout_seconds", "outcome")
    RUN_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    run: str
    rank: int
    client: str
    timeout_seconds: float
    outcome: RunOutcome
    def __init__(self, run: _Optional[str] = ..., rank: _Optional[int] = ..., client: _Optional[str] = ..., timeout_seconds: _Optional[float] = ..., outcome: _Optional[_Union[RunOutcome, _Mapping]] = ...) -> None: ...

class RunOutcome(_message.Message):
    __slots__ = ("finished", "stopped_on_advice", "failed")
    class Finished(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class StoppedOnAdvice(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Failed(_message.Message):
        __slots__ = ("error", "message")
        ERROR_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        error: str
        message: str
        def __init__(self, error: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    STOPPED_ON_ADVICE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    finished: RunOutcome.Finished
    stopped_on_advice: RunOutcome.StoppedOnAdvice
    failed: RunOutcome.Failed
    def __init__(self, finished: _Optional[_Union[RunOutcome.Finished, _Mapping]] = ..., stopped_on_advice: _Optional[_Union[RunOutcome.StoppedOnAdvice, _Mapping]] = ..., failed: _Optional[_Union[RunOutcome.Failed, _Mapping]] = ...) -> None: ...

class FinishRunResponse(_message.Message):
    __slots__ = ("finished", "unsettled", "fired", "other_splits")
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    OTHER_SPLITS_FIELD_NUMBER: _ClassVar[int]
    finished: bool
    unsettled: _containers.RepeatedCompositeFieldContainer[Unsettled]
    fired: _containers.RepeatedCompositeFieldContainer[AlertChange]
    other_splits: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, finished: bool = ..., unsettled: _Optional[_Iterable[_Union[Unsettled, _Mapping]]] = ..., fired: _Optional[_Iterable[_Union[AlertChange, _Mapping]]] = ..., other_splits: _Optional[_Iterable[str]] = ...) -> None: ...

class Unsettled(_message.Message):
    __slots__ = ("split", "step")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    split: str
    step: int
    def __init__(self, split: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class GetSidecarRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSidecarResponse(_message.Message):
    __slots__ = ("server_version", "page_url", "data_dir", "ends_unused")
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    PAGE_URL_FIELD_NUMBER: _ClassVar[int]
    DATA_DIR_FIELD_NUMBER: _ClassVar[int]
    ENDS_UNUSED_FIELD_NUMBER: _ClassVar[int]
    server_version: str
    page_url: str
    data_dir: str
    ends_unused: bool
    def __init__(self, server_version: _Optional[str] = ..., page_url: _Optional[str] = ..., data_dir: _Optional[str] = ..., ends_unused: bool = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "search")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    search: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., search: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "total", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunStatus]
    total: int
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[RunStatus, _Mapping]]] = ..., total: _Optional[int] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RunStatus(_message.Message):
    __slots__ = ("run", "finished", "started", "splits", "title", "note", "state", "state_reason")
    RUN_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_REASON_FIELD_NUMBER: _ClassVar[int]
    run: Run
    finished: bool
    started: float
    splits: _containers.RepeatedCompositeFieldContainer[SplitStatus]
    title: str
    note: str
    state: RunState
    state_reason: str
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., finished: bool = ..., started: _Optional[float] = ..., splits: _Optional[_Iterable[_Union[SplitStatus, _Mapping]]] = ..., title: _Optional[str] = ..., note: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., state_reason: _Optional[str] = ...) -> None: ...

class SplitStatus(_message.Message):
    __slots__ = ("split", "window", "rows_received", "rows_duplicate", "rows_dropped", "points", "last_step")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    ROWS_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    ROWS_DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ROWS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    split: str
    window: WindowKind
    rows_received: int
    rows_duplicate: int
    rows_dropped: int
    points: int
    last_step: int
    def __init__(self, split: _Optional[str] = ..., window: _Optional[_Union[WindowKind, str]] = ..., rows_received: _Optional[int] = ..., rows_duplicate: _Optional[int] = ..., rows_dropped: _Optional[int] = ..., points: _Optional[int] = ..., last_step: _Optional[int] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("name", "dtype", "shape", "data", "texts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchChunk(_message.Message):
    __slots__ = ("run", "split", "step", "epoch", "rank", "client", "sequence", "chunk", "last", "first_row", "tensors", "row_numbers", "rows_left_out", "end_pass", "ordinal")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    ROW_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ROWS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    END_PASS_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    run: str
    split: str
    step: int
    epoch: float
    rank: int
    client: str
    sequence: int
    chunk: int
    last: bool
    first_row: int
    tensors: _containers.RepeatedCompositeFieldContainer[Tensor]
    row_numbers: _containers.RepeatedScalarFieldContainer[int]
    rows_left_out: int
    end_pass: JoinedEnd
    ordinal: int
    def __init__(self, run: _Optional[str] = ..., split: _Optional[str] = ..., step: _Optional[int] = ..., epoch: _Optional[float] = ..., rank: _Optional[int] = ..., client: _Optional[str] = ..., sequence: _Optional[int] = ..., chunk: _Optional[int] = ..., last: bool = ..., first_row: _Optional[int] = ..., tensors: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., row_numbers: _Optional[_Iterable[int]] = ..., rows_left_out: _Optional[int] = ..., end_pass: _Optional[_Union[JoinedEnd, _Mapping]] = ..., ordinal: _Optional[int] = ...) -> None: ...

class JoinedEnd(_message.Message):
    __slots__ = ("sequence", "rows", "left_out", "backlog")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    rows: int
    left_out: int
    backlog: bool
    def __init__(self, sequence: _Optional[int] = ..., rows: _Optional[int] = ..., left_out: _Optional[int] = ..., backlog: bool = ...) -> None: ...

class EndPass(_message.Message):
    __slots__ = ("run", "split", "step", "epoch", "rank", "client", "sequence", "rows", "left_out", "backlog", "ordinal", "abandoned")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    run: str
    split: str
    step: int
    epoch: float
    rank: int
    client: str
    sequence: int
    rows: int
    left_out: int
    backlog: bool
    ordinal: int
    abandoned: str
    def __init__(self, run: _Optional[str] = ..., split: _Optional[str] = ..., step: _Optional[int] = ..., epoch: _Optional[float] = ..., rank: _Optional[int] = ..., client: _Optional[str] = ..., sequence: _Optional[int] = ..., rows: _Optional[int] = ..., left_out: _Optional[int] = ..., backlog: bool = ..., ordinal: _Optional[int] = ..., abandoned: _Optional[str] = ...) -> None: ...

class IngestRequest(_message.Message):
    __slots__ = ("chunk", "end_pass")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_PASS_FIELD_NUMBER: _ClassVar[int]
    chunk: BatchChunk
    end_pass: EndPass
    def __init__(self, chunk: _Optional[_Union[BatchChunk, _Mapping]] = ..., end_pass: _Optional[_Union[EndPass, _Mapping]] = ...) -> None: ...

class IngestResponse(_message.Message):
    __slots__ = ("sequence", "outcome", "code", "field", "message", "rows", "rows_duplicate", "rows_dropped", "end_pass", "keep_ms", "settled", "sample_bound")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[IngestResponse.Outcome]
        OUTCOME_ACCEPTED: _ClassVar[IngestResponse.Outcome]
        OUTCOME_DUPLICATE: _ClassVar[IngestResponse.Outcome]
        OUTCOME_REFUSED: _ClassVar[IngestResponse.Outcome]
    OUTCOME_UNSPECIFIED: IngestResponse.Outcome
    OUTCOME_ACCEPTED: IngestResponse.Outcome
    OUTCOME_DUPLICATE: IngestResponse.Outcome
    OUTCOME_REFUSED: IngestResponse.Outcome
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ROWS_DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ROWS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    END_PASS_FIELD_NUMBER: _ClassVar[int]
    KEEP_MS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_BOUND_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    outcome: IngestResponse.Outcome
    code: int
    field: str
    message: str
    rows: int
    rows_duplicate: int
    rows_dropped: int
    end_pass: IngestResponse
    keep_ms: int
    settled: _containers.RepeatedCompositeFieldContainer[Settled]
    sample_bound: int
    def __init__(self, sequence: _Optional[int] = ..., outcome: _Optional[_Union[IngestResponse.Outcome, str]] = ..., code: _Optional[int] = ..., field: _Optional[str] = ..., message: _Optional[str] = ..., rows: _Optional[int] = ..., rows_duplicate: _Optional[int] = ..., rows_dropped: _Optional[int] = ..., end_pass: _Optional[_Union[IngestResponse, _Mapping]] = ..., keep_ms: _Optional[int] = ..., settled: _Optional[_Iterable[_Union[Settled, _Mapping]]] = ..., sample_bound: _Optional[int] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("run", "split", "step", "outcome", "reason", "ordinal")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[Settled.Outcome]
        OUTCOME_POINT: _ClassVar[Settled.Outcome]
        OUTCOME_INCOMPLETE: _ClassVar[Settled.Outcome]
        OUTCOME_SKIPPED: _ClassVar[Settled.Outcome]
        OUTCOME_DISCARDED: _ClassVar[Settled.Outcome]
        OUTCOME_FAILED: _ClassVar[Settled.Outcome]
    OUTCOME_UNSPECIFIED: Settled.Outcome
    OUTCOME_POINT: Settled.Outcome
    OUTCOME_INCOMPLETE: Settled.Outcome
    OUTCOME_SKIPPED: Settled.Outcome
    OUTCOME_DISCARDED: Settled.Outcome
    OUTCOME_FAILED: Settled.Outcome
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    run: str
    split: str
    step: int
    outcome: Settled.Outcome
    reason: str
    ordinal: int
    def __init__(self, run: _Optional[str] = ..., split: _Optional[str] = ..., step: _Optional[int] = ..., outcome: _Optional[_Union[Settled.Outcome, str]] = ..., reason: _Optional[str] = ..., ordinal: _Optional[int] = ...) -> None: ...

class Score(_message.Message):
    __slots__ = ("id", "value", "undefined", "standard_error", "per_concept", "matrix", "age", "left_out", "left_out_why", "left_out_pairs", "left_out_of", "p_value", "per_concept_q", "matrix_q", "curve", "per_task")
    ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNDEFINED_FIELD_NUMBER: _ClassVar[int]
    STANDARD_ERROR_FIELD_NUMBER: _ClassVar[int]
    PER_CONCEPT_FIELD_NUMBER: _ClassVar[int]
    MATRIX_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_WHY_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_PAIRS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_OF_FIELD_NUMBER: _ClassVar[int]
    P_VALUE_FIELD_NUMBER: _ClassVar[int]
    PER_CONCEPT_Q_FIELD_NUMBER: _ClassVar[int]
    MATRIX_Q_FIELD_NUMBER: _ClassVar[int]
    CURVE_FIELD_NUMBER: _ClassVar[int]
    PER_TASK_FIELD_NUMBER: _ClassVar[int]
    id: str
    value: float
    undefined: str
    standard_error: float
    per_concept: _containers.RepeatedScalarFieldContainer[float]
    matrix: _containers.RepeatedScalarFieldContainer[float]
    age: float
    left_out: _containers.RepeatedScalarFieldContainer[int]
    left_out_why: str
    left_out_pairs: int
    left_out_of: int
    p_value: float
    per_concept_q: _containers.RepeatedScalarFieldContainer[float]
    matrix_q: _containers.RepeatedScalarFieldContainer[float]
    curve: _containers.RepeatedCompositeFieldContainer[CurvePoint]
    per_task: _containers.RepeatedCompositeFieldContainer[Score]
    def __init__(self, id: _Optional[str] = ..., value: _Optional[float] = ..., undefined: _Optional[str] = ..., standard_error: _Optional[float] = ..., per_concept: _Optional[_Iterable[float]] = ..., matrix: _Optional[_Iterable[float]] = ..., age: _Optional[float] = ..., left_out: _Optional[_Iterable[int]] = ..., left_out_why: _Optional[str] = ..., left_out_pairs: _Optional[int] = ..., left_out_of: _Optional[int] = ..., p_value: _Optional[float] = ..., per_concept_q: _Optional[_Iterable[float]] = ..., matrix_q: _Optional[_Iterable[float]] = ..., curve: _Optional[_Iterable[_Union[CurvePoint, _Mapping]]] = ..., per_task: _Optional[_Iterable[_Union[Score, _Mapping]]] = ...) -> None: ...

class CurvePoint(_message.Message):
    __slots__ = ("x", "y")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    x: float
    y: float
    def __init__(self, x: _Optional[float] = ..., y: _Optional[float] = ...) -> None: ...

class Point(_message.Message):
    __slots__ = ("run", "split", "step", "epoch", "time", "rows", "rows_seen", "provisional", "incomplete", "tie_fraction", "estimator", "neighbours", "seed", "catalogue_version", "seconds", "scores", "warnings", "concept_rows", "ordinal", "repeated_rows")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ROWS_SEEN_FIELD_NUMBER: _ClassVar[int]
    PROVISIONAL_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    TIE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    ESTIMATOR_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    CATALOGUE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CONCEPT_ROWS_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    REPEATED_ROWS_FIELD_NUMBER: _ClassVar[int]
    run: str
    split: str
    step: int
    epoch: float
    time: float
    rows: int
    rows_seen: int
    provisional: bool
    incomplete: bool
    tie_fraction: float
    estimator: str
    neighbours: int
    seed: int
    catalogue_version: int
    seconds: float
    scores: _containers.RepeatedCompositeFieldContainer[Score]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    concept_rows: _containers.RepeatedScalarFieldContainer[int]
    ordinal: int
    repeated_rows: int
    def __init__(self, run: _Optional[str] = ..., split: _Optional[str] = ..., step: _Optional[int] = ..., epoch: _Optional[float] = ..., time: _Optional[float] = ..., rows: _Optional[int] = ..., rows_seen: _Optional[int] = ..., provisional: bool = ..., incomplete: bool = ..., tie_fraction: _Optional[float] = ..., estimator: _Optional[str] = ..., neighbours: _Optional[int] = ..., seed: _Optional[int] = ..., catalogue_version: _Optional[int] = ..., seconds: _Optional[float] = ..., scores: _Optional[_Iterable[_Union[Score, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ..., concept_rows: _Optional[_Iterable[int]] = ..., ordinal: _Optional[int] = ..., repeated_rows: _Optional[int] = ...) -> None: ...

class GetScoresRequest(_message.Message):
    __slots__ = ("run", "split", "step", "timeout_seconds", "matrices", "ordinal")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MATRICES_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    run: str
    split: str
    step: int
    timeout_seconds: float
    matrices: bool
    ordinal: int
    def __init__(self, run: _Optional[str] = ..., split: _Optional[str] = ..., step: _Optional[int] = ..., timeout_seconds: _Optional[float] = ..., matrices: bool = ..., ordinal: _Optional[int] = ...) -> None: ...

class GetScoresResponse(_message.Message):
    __slots__ = ("point",)
    POINT_FIELD_NUMBER: _ClassVar[int]
    point: Point
    def __init__(self, point: _Optional[_Union[Point, _Mapping]] = ...) -> None: ...

class GetSeriesRequest(_message.Message):
    __slots__ = ("run", "split", "score", "concept", "first_step", "last_step")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    CONCEPT_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    run: str
    split: str
    score: str
    concept: str
    first_step: int
    last_step: int
    def __init__(self, run: _Optional[str] = ..., split: _Optional[str] = ..., score: _Optional[str] = ..., concept: _Optional[str] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ...) -> None: ...

class SeriesPoint(_message.Message):
    __slots__ = ("step", "epoch", "time", "value", "standard_error", "undefined", "rows", "tie_fraction", "provisional", "incomplete", "left_out", "p_value", "left_out_pairs", "superseded")
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    STANDARD_ERROR_FIELD_NUMBER: _ClassVar[int]
    UNDEFINED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TIE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    PROVISIONAL_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    P_VALUE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_PAIRS_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    step: int
    epoch: float
    time: float
    value: float
    standard_error: float
    undefined: str
    rows: int
    tie_fraction: float
    provisional: bool
    incomplete: bool
    left_out: _containers.RepeatedScalarFieldContainer[int]
    p_value: float
    left_out_pairs: int
    superseded: bool
    def __init__(self, step: _Optional[int] = ..., epoch: _Optional[float] = ..., time: _Optional[float] = ..., value: _Optional[float] = ..., standard_error: _Optional[float] = ..., undefined: _Optional[str] = ..., rows: _Optional[int] = ..., tie_fraction: _Optional[float] = ..., provisional: bool = ..., incomplete: bool = ..., left_out: _Optional[_Iterable[int]] = ..., p_value: _Optional[float] = ..., left_out_pairs: _Optional[int] = ..., superseded: bool = ...) -> None: ...

class GetSeriesResponse(_message.Message):
    __slots__ = ("points",)
    POINTS_FIELD_NUMBER: _ClassVar[int]
    points: _containers.RepeatedCompositeFieldContainer[SeriesPoint]
    def __init__(self, points: _Optional[_Iterable[_Union[SeriesPoint, _Mapping]]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, runs: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("point", "alert", "lost")
    POINT_FIELD_NUMBER: _ClassVar[int]
    ALERT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    point: Point
    alert: AlertChange
    lost: int
    def __init__(self, point: _Optional[_Union[Point, _Mapping]] = ..., alert: _Optional[_Union[AlertChange, _Mapping]] = ..., lost: _Optional[int] = ...) -> None: ...

class AlertChange(_message.Message):
    __slots__ = ("rule", "run", "split", "score", "state", "since", "evidence", "step", "severity")
    RULE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    rule: str
    run: str
    split: str
    score: str
    state: AlertState
    since: float
    evidence: str
    step: int
    severity: str
    def __init__(self, rule: _Optional[str] = ..., run: _Optional[str] = ..., split: _Optional[str] = ..., score: _Optional[str] = ..., state: _Optional[_Union[AlertState, str]] = ..., since: _Optional[float] = ..., evidence: _Optional[str] = ..., step: _Optional[int] = ..., severity: _Optional[str] = ...) -> None: ...

class GetAdviceRequest(_message.Message):
    __slots__ = ("run", "step", "timeout_seconds", "client", "unanswered_steps")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_STEPS_FIELD_NUMBER: _ClassVar[int]
    run: str
    step: int
    timeout_seconds: float
    client: str
    unanswered_steps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, run: _Optional[str] = ..., step: _Optional[int] = ..., timeout_seconds: _Optional[float] = ..., client: _Optional[str] = ..., unanswered_steps: _Optional[_Iterable[int]] = ...) -> None: ...

class GetAdviceResponse(_message.Message):
    __slots__ = ("stop", "reason", "decided_by_step", "missed_step", "missed_reason")
    STOP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_STEP_FIELD_NUMBER: _ClassVar[int]
    MISSED_STEP_FIELD_NUMBER: _ClassVar[int]
    MISSED_REASON_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    reason: str
    decided_by_step: int
    missed_step: int
    missed_reason: str
    def __init__(self, stop: bool = ..., reason: _Optional[str] = ..., decided_by_step: _Optional[int] = ..., missed_step: _Optional[int] = ..., missed_reason: _Optional[str] = ...) -> None: ...

class GetDiagnosisRequest(_message.Message):
    __slots__ = ("run", "split", "step", "timeout_seconds", "ordinal")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    run: str
    split: str
    step: int
    timeout_seconds: float
    ordinal: int
    def __init__(self, run: _Optional[str] = ..., split: _Optional[str] = ..., step: _Optional[int] = ..., timeout_seconds: _Optional[float] = ..., ordinal: _Optional[int] = ...) -> None: ...

class GetDiagnosisResponse(_message.Message):
    __slots__ = ("step", "epoch", "rows", "lines", "incomplete", "verdict", "actions")
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    step: int
    epoch: float
    rows: int
    lines: _containers.RepeatedCompositeFieldContainer[DiagnosisLine]
    incomplete: bool
    verdict: Verdict
    actions: _containers.RepeatedCompositeFieldContainer[Action]
    def __init__(self, step: _Optional[int] = ..., epoch: _Optional[float] = ..., rows: _Optional[int] = ..., lines: _Optional[_Iterable[_Union[DiagnosisLine, _Mapping]]] = ..., incomplete: bool = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ..., actions: _Optional[_Iterable[_Union[Action, _Mapping]]] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("state", "deciding", "concepts", "since_step", "since_epoch", "or_earlier", "reason", "stop_advised_by", "task")
    STATE_FIELD_NUMBER: _ClassVar[int]
    DECIDING_FIELD_NUMBER: _ClassVar[int]
    CONCEPTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_STEP_FIELD_NUMBER: _ClassVar[int]
    SINCE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    OR_EARLIER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_ADVISED_BY_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    state: VerdictState
    deciding: Evidence
    concepts: _containers.RepeatedScalarFieldContainer[str]
    since_step: int
    since_epoch: float
    or_earlier: bool
    reason: str
    stop_advised_by: str
    task: str
    def __init__(self, state: _Optional[_Union[VerdictState, str]] = ..., deciding: _Optional[_Union[Evidence, _Mapping]] = ..., concepts: _Optional[_Iterable[str]] = ..., since_step: _Optional[int] = ..., since_epoch: _Optional[float] = ..., or_earlier: bool = ..., reason: _Optional[str] = ..., stop_advised_by: _Optional[str] = ..., task: _Optional[str] = ...) -> None: ...

class Action(_message.Message):
    __slots__ = ("text", "why", "evidence")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    text: str
    why: str
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    def __init__(self, text: _Optional[str] = ..., why: _Optional[str] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ...) -> None: ...

class DiagnosisLine(_message.Message):
    __slots__ = ("rule", "title", "source", "state", "text", "evidence", "subject")
    RULE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    rule: str
    title: str
    source: str
    state: DiagnosisState
    text: str
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    subject: str
    def __init__(self, rule: _Optional[str] = ..., title: _Optional[str] = ..., source: _Optional[str] = ..., state: _Optional[_Union[DiagnosisState, str]] = ..., text: _Optional[str] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., subject: _Optional[str] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("score", "value", "standard_error", "limit", "step")
    SCORE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    STANDARD_ERROR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    score: str
    value: float
    standard_error: float
    limit: float
    step: int
    def __init__(self, score: _Optional[str] = ..., value: _Optional[float] = ..., standard_error: _Optional[float] = ..., limit: _Optional[float] = ..., step: _Optional[int] = ...) -> None: ...

class Recorded(_message.Message):
    __slots__ = ("start", "ingest", "finish")
    START_FIELD_NUMBER: _ClassVar[int]
    INGEST_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    start: StartRunRequest
    ingest: IngestRequest
    finish: FinishRunRequest
    def __init__(self, start: _Optional[_Union[StartRunRequest, _Mapping]] = ..., ingest: _Optional[_Union[IngestRequest, _Mapping]] = ..., finish: _Optional[_Union[FinishRunRequest, _Mapping]] = ...) -> None: ...

/* include/weir/weir.h - the whole public interface. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/adapter.h"
#include "weir/base.h"
#include "weir/convert.h"
#include "weir/engine.h"
#include "weir/experimental.h"
#include "weir/generate.h"
#include "weir/grammar.h"
#include "weir/model.h"
#include "weir/request.h"
#include "weir/sample.h"
#include "weir/sequence.h"
#include "weir/text.h"
#include "weir/toolcall.h"

#endif

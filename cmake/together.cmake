# SPDX-License-Identifier: Apache-2.0
# The sources of a folder compiled as one file: what they include is read once, which was more than half of their time. In every build but where
# CMAKE_UNITY_BUILD is given as OFF (the preset alone). A folder's sources then share their unnamed namespace too: those that have a name of another's are
# listed as ALONE where this is called. The files lie in the folder that the compiler runs in, or a compiler cache would miss them in a wheel and in a
# project around this one.
set(phasor_compiles_together ON)
if(DEFINED CMAKE_UNITY_BUILD AND NOT CMAKE_UNITY_BUILD)
  set(phasor_compiles_together OFF)
endif()
set(CMAKE_UNITY_BUILD OFF)  # CMake would make files of these files

# phasor_together(LIST ROOT ALONE...): in LIST, the sources of each folder under ROOT but ALONE give way to a file that includes them.
function(phasor_together list root)
  if(NOT phasor_compiles_together)
    return()
  endif()
  set(kept)
  set(files)
  foreach(source ${${list}})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${root} OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH folder)
    string(REPLACE "/" "_" file "${list}_${folder}")
    if(path IN_LIST ARGN OR source IN_LIST ARGN)
      list(APPEND kept ${source})
    else()
      list(APPEND files ${file})
      string(APPEND text_${file} "#include \"${path}\"\n")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES files)
  foreach(file ${files})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/phasor_together/${file}.cpp CONTENT "${text_${file}}" @ONLY)
    list(APPEND kept ${CMAKE_BINARY_DIR}/phasor_together/${file}.cpp)
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()
